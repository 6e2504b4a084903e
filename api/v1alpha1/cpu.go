// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"reflect"

	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/strictjson"
)

// CPUConfigKind is what kind may say of a CPUConfig. It may also be left out.
const CPUConfigKind = "CPUConfig"

// shortAPIVersion is how the driver that ours succeeds writes APIVersion.
const shortAPIVersion = "v1alpha1"

// L3 placements.
const (
	L3Pack   = "pack"
	L3Spread = "spread"
)

// Kinds of cores, as the attribute dra.cpu/coreType has them.
const (
	CoreStandard    = "standard"
	CorePerformance = "p-core"
	CoreEfficiency  = "e-core"
)

// CPUConfig is which CPUs a container shall get: the opaque parameters of driver
// dra.cpu. How many is the request's capacity. A field that is left out is not
// the same as one that is zero: false and an empty list are decisions, and win
// over lower layers.
type CPUConfig struct {
	// APIVersion may be plumbline.dev/v1alpha1 or v1alpha1, or left out.
	APIVersion string `json:"apiVersion,omitempty" jsonschema:"enum=plumbline.dev/v1alpha1,enum=v1alpha1"`
	// Kind may be CPUConfig, or left out.
	Kind string `json:"kind,omitempty" jsonschema:"enum=CPUConfig"`
	// FullCores gives whole cores only: nobody else runs on a thread of them. The
	// number of CPUs must be one that whole cores make. Default: false.
	FullCores *bool `json:"fullCores,omitempty" jsonschema:"default=false"`
	// L3 is pack (the default: CPUs below as few L3 caches as possible) or spread
	// (below as many as possible, for work that lives from cache and memory
	// bandwidth).
	L3 *string `json:"l3,omitempty" jsonschema:"enum=pack,enum=spread,default=pack"`
	// CoreTypes is for machines with cores of several kinds.
	CoreTypes *CoreTypesConfig `json:"coreTypes,omitempty"`
	// CPUSet names the CPUs, as a list such as 2-5,8: as many as the request takes,
	// all of them free. Nothing is left to choose then, but fullCores and
	// coreTypes.exclude are checked. Empty: the driver chooses.
	CPUSet *string `json:"cpuset,omitempty" jsonschema:"example=2-5"`
	// CPUConfig is the older place of cpuset. Between layers the two are one field:
	// the upper layer's place wins.
	CPUConfig *CPUSetConfig `json:"cpuConfig,omitempty"`
}

// CoreTypesConfig is which kinds of cores to take: standard, p-core (performance)
// or e-core (efficiency). All cores of a machine that is not hybrid are standard.
type CoreTypesConfig struct {
	// Prefer is the kind to take first; left out, p-core before standard before
	// e-core. CPUs of one kind come before CPUs of two.
	Prefer *string `json:"prefer,omitempty" jsonschema:"enum=standard,enum=p-core,enum=e-core"`
	// Exclude are kinds not to take.
	Exclude []string `json:"exclude,omitzero" jsonschema:"enum=standard,enum=p-core,enum=e-core"`
}

// CPUSetConfig is the older place of cpuset.
type CPUSetConfig struct {
	// CPUSet is the same as cpuset.
	CPUSet *string `json:"cpuset,omitempty" jsonschema:"example=2-5"`
}

// DecodeCPUConfig reads one layer of parameters strictly, as DecodeNetworkConfig
// does.
func DecodeCPUConfig(text []byte) (*CPUConfig, error) {
	var c CPUConfig
	if err := strictjson.Decode(text, &c); err != nil {
		return nil, err
	}
	if err := checkHeader(c.APIVersion, c.Kind, CPUConfigKind, APIVersion, shortAPIVersion); err != nil {
		return nil, err
	}
	return &c, nil
}

// CPUs are the CPUs that the configuration names, and the field that names them;
// none where it leaves the choice. It is to be valid.
func (c *CPUConfig) CPUs() (cpus cpuset.CPUSet, path string) {
	path = "cpuset"
	text := ptr.Deref(c.CPUSet, "")
	if c.CPUSet == nil && c.CPUConfig != nil {
		path, text = "cpuConfig.cpuset", ptr.Deref(c.CPUConfig.CPUSet, "")
	}
	cpus, err := parseCPUList(text)
	if err != nil {
		return cpuset.New(), path
	}
	return cpus, path
}

// FieldValues are the fields that a configuration sets, as those of NetworkConfig.
func (c *CPUConfig) FieldValues() []FieldValue { return fieldValuesOf(reflect.ValueOf(c)) }

// CPULayer is one set of parameters of dra.cpu, and where it comes from in words.
type CPULayer struct {
	Source string
	Config *CPUConfig
}

// EffectiveCPUConfig merges layers, the weakest first (device class, claim), over
// the driver's defaults, and says of each field where it comes from. Lists
// replace. The layers stay as they are.
func EffectiveCPUConfig(layers ...CPULayer) (*CPUConfig, Origins) {
	out, origins := &CPUConfig{}, Origins{}
	for _, l := range layers {
		settleCPUSet(out, l.Config, origins)
		lay(reflect.ValueOf(out), reflect.ValueOf(l.Config), l.Source, origins)
	}
	if out.FullCores == nil {
		out.FullCores, origins["fullCores"] = ptr.To(false), SourceDefault
	}
	if out.L3 == nil {
		out.L3, origins["l3"] = ptr.To(L3Pack), SourceDefault
	}
	return out, origins
}

// settleCPUSet unsets the CPUs of a lower layer where the layer above names some by the
// other field: cpuset and cpuConfig.cpuset mean the same, and the upper layer wins.
func settleCPUSet(below, above *CPUConfig, origins Origins) {
	older := above.CPUConfig != nil && above.CPUConfig.CPUSet != nil
	if older && above.CPUSet == nil {
		below.CPUSet = nil
		delete(origins, "cpuset")
	}
	if above.CPUSet != nil && !older {
		below.CPUConfig = nil
		delete(origins, "cpuConfig.cpuset")
	}
}
