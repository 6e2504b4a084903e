// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"path/filepath"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/guard"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// installGuard puts plumbline-guard where the container runtime can run it, and
// returns its path; empty where it cannot run. Pods are then kept from starting
// without their devices by the hooks alone, while an agent is there.
func (a *agent) installGuard(ctx context.Context) string {
	logger := klog.FromContext(ctx)
	if a.GuardSource == "" || !a.needsGuard() {
		return ""
	}
	path := filepath.Join(a.StateDir, "bin", guard.Program)
	if err := guard.Install(ctx, a.GuardSource, path); err != nil {
		a.events.Node(true, "GuardNotInstalled", err.Error())
		logger.Error(err, "containers are not guarded while this agent is away; its hooks refuse them while it is there: "+
			"want --state-dir on a file system that allows programs, at the same path on the host")
		return ""
	}
	logger.Info("containers are guarded, also while no agent is there", "by", path)
	return path
}

// needsGuard says whether a driver gives what a container could start without.
func (a *agent) needsGuard() bool {
	for _, name := range a.Drivers {
		if name != slicecodec.DriverGPU {
			return true
		}
	}
	return false
}
