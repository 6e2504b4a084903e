// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/host/kubelet"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// policyEvery is how often the kubelet's CPU manager policy is read.
const policyEvery = 30 * time.Second

// refuseStatic says why CPUs cannot be offered beside the kubelet's own CPU
// manager; nil where it leaves them alone, or does not say.
func (a *agent) refuseStatic(ctx context.Context) error {
	m, err := kubelet.ReadCPUManager(a.KubeletRoot)
	if err != nil {
		klog.FromContext(ctx).Info("taken for cpuManagerPolicy: none", "reason", err.Error())
		return nil
	}
	if m.Policy != kubelet.PolicyStatic {
		return nil
	}
	return fmt.Errorf("%s is not offered: the kubelet gives out CPUs itself (cpuManagerPolicy: static), and would move containers onto those of claims; "+
		"drain the node, set cpuManagerPolicy: none in the kubelet's configuration, remove %s/%s, restart the kubelet, and delete this agent's pod",
		slicecodec.DriverCPU, a.KubeletRoot, kubelet.CPUManagerFile)
}

// watchPolicy ends the agent when the kubelet has become another one, so that it
// starts anew and looks again. An agent that offers no CPUs stays: a kubelet that
// gives them out itself rewrites its state with every container.
func (a *agent) watchPolicy(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(policyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m, err := kubelet.ReadCPUManager(a.KubeletRoot)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil: // it is being written
			klog.FromContext(ctx).V(2).Info("will be read again", "reason", err.Error())
		case m.Stale || m.Policy == kubelet.PolicyStatic:
			stop(fmt.Errorf("the kubelet has written a new %s since this agent started, which starts anew to read it", kubelet.CPUManagerFile))
			return
		}
	}
}
