// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Scripts of the faults. What takes time goes on in the background: samples need the
// node's shell meanwhile. The node's first process starts containerd and the kubelet
// again.
const (
	// killProcess waits until the process is gone: one that is dying still holds its
	// connections, also when its memory (/proc/PID/exe) is given back already
	// (kernel/exit.c, do_exit).
	killProcess = `pid=$(find_process "$@"); [ -z "$pid" ] || kill -9 "$pid"
	while [ -n "$pid" ] && [ -e "/proc/$pid" ]; do sleep 0.05; done`
	// removeLink takes the PCI function away for a second.
	removeLink = `( echo 1 >"/sys/bus/pci/devices/$1/remove"; sleep 1; echo 1 >/sys/bus/pci/rescan ) >/dev/null 2>&1 &`
	renameLink = `nsenter -t "$1" -n sh -c "ip link set net1 down; ip link set net1 name mine0; ip link set mine0 up"`
	// endSandbox keeps the agent dead for as long as the kubelet needs to make
	// a new sandbox.
	endSandbox = `( i=0; while [ $i -lt 40 ]; do
	agent=$(find_agent); [ -z "$agent" ] || kill -9 "$agent"
	[ $i -ne 1 ] || kill -9 "$1"
	sleep 0.1; i=$((i+1)); done ) >/dev/null 2>&1 &`
)

// apiAway is how long the API server is away: longer than any hook waits for it, and
// than what gives up after some tries.
const apiAway = 5 * time.Second

// inject makes a cycle's fault happen. It says whether it could: a NIC that is
// not in a pod cannot be renamed there.
func (r *run) inject(ctx context.Context, p *pod) (bool, error) {
	pid, sandbox, nics, _ := r.watch.place(p.uid)
	switch p.cycle.Fault {
	case AgentKilled:
		return true, r.killAgent(ctx)
	case RuntimeRestarted:
		return true, r.killManager(ctx, p, "containerd")
	case KubeletRestarted:
		return true, r.killManager(ctx, p, "hyperkube")
	case ForceDeleted:
		return true, nil // finish does it
	case APIServerAway:
		return true, r.outage.hold(ctx, apiAway)
	case LinkRemoved:
		if len(nics) != 1 {
			return false, nil
		}
		r.watch.nicRemoved(p.uid)
		return true, r.script(ctx, removeLink, nics[0])
	case LinkRenamed:
		if pid == 0 || len(nics) != 1 {
			return false, nil
		}
		return true, r.script(ctx, renameLink, strconv.Itoa(pid))
	case SandboxRecreated:
		if sandbox == 0 {
			return false, nil
		}
		return true, r.script(ctx, endSandbox, strconv.Itoa(sandbox))
	}
	return false, fmt.Errorf("unknown fault %q", p.cycle.Fault)
}

// killAgent kills the agent. The kernel destroys a stand-in with the network
// namespace it is in, unless an agent takes it home, where it would return a NIC.
// So where NICs are stand-ins no sandbox may end until another agent serves: that
// takes all lanes.
func (r *run) killAgent(ctx context.Context) error {
	lanes := int64(r.config.Node.Lanes)
	if !r.standIns() {
		lanes = 0
	}
	if err := r.agentInUse.Acquire(ctx, lanes); err != nil {
		return err
	}
	defer r.agentInUse.Release(lanes)
	err := r.kill(ctx, "plumbline-agent", "--node-name=")
	if err != nil || lanes == 0 {
		return err
	}
	return r.recovered(ctx, nil)
}

// killManager kills containerd or the kubelet, which make and end sandboxes: half-made
// ones end later, on account of this lane. In its last phase the lane holds agentInUse
// already.
func (r *run) killManager(ctx context.Context, p *pod, name string) error {
	if r.standIns() && p.cycle.Phase != Deleting {
		if err := r.agentInUse.Acquire(ctx, 1); err != nil {
			return err
		}
		defer r.agentInUse.Release(1)
	}
	if err := r.kill(ctx, name); err != nil || !r.standIns() {
		return err
	}
	pods, _ := r.watch.uids()
	return r.recovered(ctx, pods)
}

// recovered waits until the agent serves and pods have their NICs. Where they do not
// get them, their own lanes report it.
func (r *run) recovered(ctx context.Context, pods []string) error {
	err := r.until(ctx, func() (bool, error) { return r.watch.allSettled(pods), nil })
	if errors.Is(err, harness.ErrTimeout) {
		return nil
	}
	return err
}

func (r *run) standIns() bool { return r.config.Node.StandIns != "" }

// kill ends a process. Samples begun before do not count then: it may be the agent, or
// what the agent needs. It is found by name and option, as
// find_process does.
func (r *run) kill(ctx context.Context, process ...string) error {
	defer r.watch.ended()
	return r.script(ctx, killProcess, process...)
}

func (r *run) script(ctx context.Context, script string, args ...string) error {
	_, err := r.config.Node.run(ctx, script, args...)
	return err
}
