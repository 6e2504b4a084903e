// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/cpu/placement"
)

// wish is what the parameters of one device ask for.
type wish struct {
	policy placement.Policy
	// cpusPath is the field that policy.CPUs come from.
	cpusPath string
	// choices are the fields that say how to choose.
	choices []string
}

func wantOf(layers []driver.Config) (wish, error) {
	cpus, err := configuredCPUs(layers)
	return wish{policy: placement.Policy{CPUs: cpus}, cpusPath: "cpuConfig.cpuset"}, err
}

// config are the opaque parameters the original driver takes.
type config struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind,omitempty"`
	CPUConfig  *cpuConfig `json:"cpuConfig,omitempty"`
}

type cpuConfig struct {
	CPUSet string `json:"cpuset,omitempty"`
}

// configuredCPUs returns the CPUs that the parameters name; empty where they
// leave the choice to the driver. The claim's word comes after the class's and
// wins.
func configuredCPUs(layers []driver.Config) (cpuset.CPUSet, error) {
	named := cpuset.New()
	for _, layer := range layers {
		c, err := decodeConfig(layer.Raw)
		if err != nil {
			return cpuset.New(), fmt.Errorf("parameters of the %s: %w", layer.Source, err)
		}
		if c.CPUConfig == nil || c.CPUConfig.CPUSet == "" {
			continue
		}
		if named, err = parseCPUs(c.CPUConfig.CPUSet); err != nil {
			return cpuset.New(), fmt.Errorf("parameters of the %s: cpuConfig.cpuset %q: want a list such as 2-5,8: %w",
				layer.Source, c.CPUConfig.CPUSet, err)
		}
	}
	return named, nil
}

// cpusAtMost is above what any kernel numbers (CONFIG_NR_CPUS).
const cpusAtMost = 65536

// parseCPUs reads a list of CPUs from an untrusted claim: the library writes a
// range out number by number, so its bounds are looked at before.
func parseCPUs(list string) (cpuset.CPUSet, error) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			return cpuset.New(), err
		}
		to, err := strconv.Atoi(last)
		if err != nil {
			return cpuset.New(), err
		}
		if from < 0 || to < from || to >= cpusAtMost {
			return cpuset.New(), fmt.Errorf("%q: want ordered ranges of numbers below %d", part, cpusAtMost)
		}
	}
	return cpuset.Parse(list)
}

func decodeConfig(raw []byte) (config, error) {
	var c config
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return config{}, fmt.Errorf("want apiVersion and cpuConfig.cpuset: %w", err)
	}
	switch c.APIVersion {
	case "v1alpha1", "plumbline.dev/v1alpha1":
		return c, nil
	}
	return config{}, fmt.Errorf("apiVersion %q: want v1alpha1", c.APIVersion)
}
