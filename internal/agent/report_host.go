// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"path/filepath"

	"k8s.io/client-go/rest"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/agent/hostreport"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// reportHost has the node's HostReport written until ctx ends, and returns what is to be
// called when the machine has changed.
func (a *agent) reportHost(ctx context.Context, config *rest.Config) (machineChanged func(), err error) {
	if a.HostReportInterval == 0 {
		return func() {}, nil
	}
	// Before the first slice is written: a start must not take from it what the agent
	// before this one said.
	a.lookAtHost(ctx)
	a.merged.Redescribe()
	changed := make(chan struct{}, 1)
	devices := hostreport.Devices{Tell: func(found map[string]status.Answer) { a.status.SetHost(slicecodec.DriverNet, found) }}
	reporter, err := hostreport.New(hostreport.Options{
		Node: a.NodeName, Client: a.client, Config: config, Interval: a.HostReportInterval, Changed: changed,
		Look: func() hosts.Report {
			report, machine := a.lookAtHost(ctx)
			devices.Looked(report, machine.NICs)
			return report
		},
	})
	if err != nil {
		return nil, err
	}
	a.serving.Go(func() { reporter.Run(ctx) })
	return func() {
		select {
		case changed <- struct{}{}:
		default: // one is pending, and covers this change too
		}
	}, nil
}

// lookAtHost looks, and has slices and figures say what was found.
func (a *agent) lookAtHost(ctx context.Context) (hosts.Report, *model.Machine) {
	held, err := a.heldNICs(ctx)
	if err != nil { // told where records are read for slices
		held = nil
	}
	machine := a.merged.Current()
	report := hostreport.Look(machine, held, hostreport.Paths{Sys: a.SysfsRoot, Proc: a.ProcRoot, NRI: filepath.Dir(a.NRISocket)})
	// The scan as it was: a NIC that has just come back is down, whatever it was before.
	a.offer.Looked(report, a.merged.Scan(), held)
	for _, f := range hostreport.Figures(report) {
		a.metrics.HostChecked(f.Check, string(f.Severity), f.Wrong)
	}
	return report, machine
}
