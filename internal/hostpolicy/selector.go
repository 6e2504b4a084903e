// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"context"
	"fmt"

	"k8s.io/dynamic-resource-allocation/cel"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// compile compiles an expression as the scheduler does those of device classes: what finds a
// link here and what chooses its device there is one language.
func compile(expression string) (cel.CompilationResult, error) {
	c := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true}).CompileCELExpression(expression, cel.Options{DisableCostEstimation: true})
	if c.Error != nil {
		return c, fmt.Errorf("selector.cel: %q: %s", expression, c.Error.Detail)
	}
	return c, nil
}

// selector is means of an expression. A link is seen as it would be published if nobody
// shared it and nothing kept it from claims, so that what a policy makes of a link does not
// decide whether it means the link.
func (l LinkPolicy) selector(m *model.Machine) (func(*model.Machine, *model.NIC) (bool, error), error) {
	compiled, err := compile(l.CEL)
	if err != nil {
		return nil, err
	}
	return func(_ *model.Machine, n *model.NIC) (bool, error) {
		d := slicecodec.EncodeNIC(m, *n)
		meant, _, err := compiled.DeviceMatches(context.Background(), cel.Device{Driver: slicecodec.DriverNet, Attributes: d.Attributes, Capacity: d.Capacity})
		if err != nil {
			return false, fmt.Errorf("selector.cel: %q cannot be told of it: %w", l.CEL, err)
		}
		return meant, nil
	}, nil
}
