// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/agent/hostpolicies"
	"plumbline.dev/plumbline/internal/agent/hostreport"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/host/dcb"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/procfs"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysctl"
	"plumbline.dev/plumbline/internal/hostpolicy"
	"plumbline.dev/plumbline/internal/hostsetup"
	"plumbline.dev/plumbline/internal/kube"
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
	client, err := kube.OwnClient(config)
	if err != nil {
		return nil, err
	}
	changed := make(chan struct{}, 1)
	reportAgain := func() {
		select {
		case changed <- struct{}{}:
		default: // one is pending, and covers this change too
		}
	}
	policies, err := a.keepPolicies(client, reportAgain)
	if err != nil {
		return nil, err
	}
	devices := hostreport.Devices{Tell: func(found map[string]status.Answer) { a.status.SetHost(slicecodec.DriverNet, found) }}
	reporter := hostreport.New(hostreport.Options{
		Node: a.NodeName, Client: a.client, Reports: client, Interval: a.HostReportInterval, Changed: changed,
		Look: func() (hosts.Report, bool) {
			report, machine := a.lookAtHost(ctx)
			devices.Looked(report, machine.NICs)
			report.Policies, report.SetupWanted = policies.Results(), policies.Asking()
			return report, policies.Known()
		},
	})
	a.serving.Go(func() { reporter.Run(ctx) })
	a.serving.Go(func() { policies.Run(ctx) })
	return func() { reportAgain(); policies.Look() }, nil
}

// keepPolicies prepares to follow HostPolicies. told is called when there is something
// new to report of them.
func (a *agent) keepPolicies(client rest.Interface, told func()) (*hostpolicies.Keeper, error) {
	bootID, err := procfs.BootID(os.DirFS(a.ProcRoot))
	if err != nil {
		return nil, err
	}
	reconciler := hostpolicy.Reconciler{File: filepath.Join(a.StateDir, "host-policies.json"), BootID: bootID}
	asker := &hostsetup.Asker{}
	if a.HostSetup {
		if asker, err = hostsetup.NewAsker(filepath.Join(a.StateDir, hostsetup.Folder), bootID); err != nil {
			return nil, err
		}
	}
	// Before the first claim: what the agent before this one asked for may yet be done.
	a.gate.Begin(asker.Functions(hostsetup.FieldNumVFs))
	a.merged.Redescribe()
	readable := hostsetup.Host{Sys: a.SysfsRoot, ProcSys: filepath.Join(a.ProcRoot, "sys")}
	return hostpolicies.New(hostpolicies.Options{
		Client: client, Labels: a.labels.get, Machine: a.merged.Scan, Interval: a.HostReportInterval, Told: told,
		Apply: func(policies []hostpolicy.Policy, machine *model.Machine) (o hostpolicies.Outcome, err error) {
			if len(policies) == 0 && !reconciler.Changed() && !a.shares.Any() {
				return o, nil // no socket for nothing
			}
			if err := asker.Begin(); err != nil {
				return o, err
			}
			a.gate.Begin(asker.Functions(hostsetup.FieldNumVFs))
			a.shares.Begin()
			defer func() {
				shared, failed := a.shares.End()
				err = errors.Join(err, failed)
				if a.gate.End(asker.Functions(hostsetup.FieldNumVFs), asker.Unsettled()) || shared {
					a.merged.Redescribe()
					a.offerChanged()
				}
				o.Asking = asker.Asking() || a.gate.Closed()
			}()
			conn, err := rtnl.Dial(netns.Current)
			if err != nil {
				return o, err
			}
			defer conn.Close()
			reconciler.Kernel = hostpolicy.Live{
				Conn: conn, Net: sysctl.New(a.ProcSys, netns.Current), Host: readable, Asker: asker, Gate: &a.gate, Shares: a.shares,
				Held: func() ([]model.NIC, error) { return a.heldOrShared(context.Background()) },
			}
			if o.Results, err = reconciler.Run(policies, machine); err == nil {
				err = asker.End()
			}
			return o, err
		},
	}), nil
}

// lookAtHost looks, and has slices and figures say what was found.
func (a *agent) lookAtHost(ctx context.Context) (hosts.Report, *model.Machine) {
	held, err := a.heldNICs(ctx)
	if err != nil { // told where records are read for slices
		held = nil
	}
	machine := a.merged.Current()
	report := hostreport.Look(machine, held, hostreport.Paths{Sys: a.SysfsRoot, Proc: a.ProcRoot, NRI: filepath.Dir(a.NRISocket), DCB: dcb.Read})
	// The scan as it was: a NIC that has just come back is down, whatever it was before.
	a.offer.Looked(report, a.merged.Scan(), held)
	for _, f := range hostreport.Figures(report) {
		a.metrics.HostChecked(f.Check, string(f.Severity), f.Wrong)
	}
	return report, machine
}
