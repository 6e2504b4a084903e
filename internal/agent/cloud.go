// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/providers"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// clouds is what the node's cloud says of its NICs.
type clouds struct {
	cache    *cloud.Cache
	profiles *cloud.Profiles
}

// openClouds reads what is known of the cloud, and asks nobody. Where NICs are
// not served, nobody ever is.
func (a *agent) openClouds(ctx context.Context, records *journal.Journal, bootID string) error {
	chosen := providers.Chosen{}
	if slices.Contains(a.Drivers, slicecodec.DriverNet) {
		var err error
		o := a.Cloud
		o.Sys = os.DirFS(a.SysfsRoot)
		if chosen, err = providers.Choose(o); err != nil {
			return err
		}
	}
	for _, warning := range chosen.Warnings {
		klog.FromContext(ctx).Info("warning", "about", warning)
	}
	a.clouds.cache = cloud.Open(ctx, cloud.Options{
		Candidates: chosen.Candidates, Probe: chosen.Probe, File: filepath.Join(a.StateDir, "cloud.json"), BootID: bootID,
		Report: a.reportCloud, Poll: cloud.DefaultPollConfig(),
	})
	a.merged.Describe = a.clouds.cache.Describe
	a.clouds.profiles = &cloud.Profiles{
		Provider: chosen.Profiler, Base: a.clouds.cache.Config, Machine: a.merged.Current,
		Dir: filepath.Join(a.StateDir, "profiles"), Poll: cloud.DefaultPollConfig(),
		Lock: func(ctx context.Context, uid types.UID) (func(), error) {
			return records.LockClaim(ctx, slicecodec.DriverNet, uid)
		},
	}
	return nil
}

// serve has claims of NICs go through the cloud's layers.
func (c clouds) serve(p *claims.Preparer) {
	if p.Name() == slicecodec.DriverNet {
		p.Resolve, p.Release = c.profiles.Resolve, c.profiles.Release
	}
}

// run asks in the background until ctx ends.
func (c clouds) run(ctx context.Context) {
	go c.cache.Run(ctx)
	go c.profiles.Run(ctx)
}

// reportCloud tells the node's readers that its cloud stopped answering, or
// answers again.
func (a *agent) reportCloud(problem error) {
	if problem == nil {
		a.events.Node(false, "CloudAnswers", "the cloud answers again")
		return
	}
	a.events.Node(true, "CloudAway", problem.Error()+"; what is known of the node's NICs stays published")
}
