// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"os"

	"plumbline.dev/plumbline/internal/agent/deviceplugins"
	"plumbline.dev/plumbline/internal/deviceplugin"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify"
)

// DevicePluginsPath answers with what device plugins gave to the node's pods.
const DevicePluginsPath = deviceplugins.Path

// kubelet is asked what its device plugins gave: no object of the API server says it.
func (a *agent) kubelet() deviceplugins.Kubelet {
	return deviceplugins.Kubelet{Node: a.NodeName, Root: a.KubeletRoot, Proc: os.DirFS(a.ProcRoot), Machine: a.merged.Current}
}

// plugged are the GPUs that pods have of device plugins, as far as their IDs lead to one.
func (a *agent) plugged(ctx context.Context) ([]verify.Plugged, error) {
	report, err := a.kubelet().Look(ctx)
	if err != nil {
		return nil, err
	}
	var list []verify.Plugged
	for _, d := range report.Devices {
		if _, gpu := deviceplugin.GPUVendor(d.Resource); !gpu || d.Function == nil || d.Held == nil {
			continue
		}
		address, err := model.ParsePCIAddress(d.Function.Address)
		if err != nil {
			return nil, fmt.Errorf("read where %s %s is: %w", d.Resource, d.ID, err)
		}
		list = append(list, verify.Plugged{Namespace: d.Held.Namespace, Pod: d.Held.Pod, Resource: d.Resource, PCI: address})
	}
	return list, nil
}
