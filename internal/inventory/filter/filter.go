// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// mostCost bounds an evaluation, by CEL's own units: as the API server bounds a
// device selector (resource.k8s.io/v1, CELSelectorExpressionMaxCost).
const mostCost = resourceapi.CELSelectorExpressionMaxCost

// Filter is a CEL expression that says which NICs may be offered. It is compatible with
// DRANET's: "attributes" is a map from names such as "dra.net/type" to values with the
// fields StringValue, IntValue, BoolValue and VersionValue. A nil Filter is always
// true.
type Filter struct {
	program cel.Program
}

// New compiles an expression; empty is the nil Filter.
func New(expression string) (*Filter, error) {
	if expression == "" {
		return nil, nil
	}
	env, err := cel.NewEnv(
		ext.NativeTypes(reflect.TypeFor[resourceapi.DeviceAttribute]()),
		cel.Variable("attributes", cel.MapType(cel.StringType, cel.ObjectType("v1.DeviceAttribute"))),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare CEL: %w", err)
	}
	ast, issues := env.Compile(expression)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf(`%q: want a CEL expression over attributes, such as attributes["dra.net/type"].StringValue != "veth": %w`, expression, err)
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("%q: want an expression that is true or false, this one is a value of type %s", expression, t)
	}
	program, err := env.Program(ast, cel.CostLimit(mostCost))
	if err != nil {
		return nil, fmt.Errorf("%q: %w", expression, err)
	}
	return &Filter{program: program}, nil
}

// Apply withholds the NICs of which the expression is not true, and those for which its
// evaluation fails: to offer a NIC that it was meant to exclude would be worse. Held
// NICs stay as they are. The machine is not changed.
func (f *Filter) Apply(m *model.Machine, held []model.NIC) *model.Machine {
	if f == nil {
		return m
	}
	keep := map[string]bool{}
	for _, n := range held {
		keep[slicecodec.NICName(n)] = true
	}
	attributes := map[string]map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	for _, d := range slicecodec.Encode(m, slicecodec.DriverNet, slicecodec.CPUOptions{}) {
		attributes[d.Name] = d.Attributes
	}
	filtered := *m
	filtered.NICs = slices.Clone(m.NICs)
	for i := range filtered.NICs {
		n := &filtered.NICs[i]
		name := slicecodec.NICName(*n)
		of, offered := attributes[name]
		if !n.Offered() || !offered || keep[name] {
			continue
		}
		if reason := f.reason(of); reason != "" {
			n.Withhold(reason)
		}
	}
	return &filtered
}

// reason is why a NIC must not be offered, empty when it may.
func (f *Filter) reason(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) string {
	byName := make(map[string]resourceapi.DeviceAttribute, len(attributes))
	for name, a := range attributes {
		byName[string(name)] = a
	}
	out, _, err := f.program.Eval(map[string]any{"attributes": byName})
	switch {
	case err != nil:
		return fmt.Sprintf("is left out: --filter cannot judge it: %v", err)
	case out != types.True:
		return "is left out by --filter"
	}
	return ""
}
