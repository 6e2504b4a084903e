// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cycles

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Scripts of the faults. What takes time runs behind them: the node's shell is
// needed to look meanwhile. The guest's first program, and on a host the lab's,
// starts containerd and the kubelet again.
const (
	// killProcess waits until the process is gone: one that is dying still holds
	// its connections.
	killProcess = `pid=$(find_process "$1"); [ -z "$pid" ] || kill -9 "$pid"
	while [ -n "$pid" ] && [ -e "/proc/$pid/exe" ]; do sleep 0.05; done`
	// removeLink leaves the function away for a second.
	removeLink = `( echo 1 >"/sys/bus/pci/devices/$1/remove"; sleep 1; echo 1 >/sys/bus/pci/rescan ) >/dev/null 2>&1 &`
	renameLink = `nsenter -t "$1" -n sh -c "ip link set net1 down; ip link set net1 name mine0; ip link set mine0 up"`
	// endSandbox keeps the agent dead for as long as the kubelet needs to make
	// a new sandbox.
	endSandbox = `( i=0; while [ $i -lt 40 ]; do
	agent=$(find_process plumbline-agent); [ -z "$agent" ] || kill -9 "$agent"
	[ $i -ne 1 ] || kill -9 "$1"
	sleep 0.1; i=$((i+1)); done ) >/dev/null 2>&1 &`
)

// apiAway is how long the API server is away.
const apiAway = 10 * time.Second

// inject lets a cycle's fault happen. It says whether it could: a NIC that is
// not in a pod cannot be renamed there.
func (r *run) inject(ctx context.Context, p *pod) (bool, error) {
	pid, sandbox, nics, _ := r.watch.place(p.uid)
	switch p.cycle.Fault {
	case AgentKilled:
		return true, r.kill(ctx, "plumbline-agent")
	case RuntimeRestarted:
		return true, r.kill(ctx, "containerd")
	case KubeletRestarted:
		return true, r.script(ctx, killProcess, "hyperkube")
	case ForceDeleted:
		p.deleted = true
		return true, r.delete(ctx, p.name, 0)
	case APIServerAway:
		resume, err := r.config.PauseAPIServer()
		if err != nil {
			return false, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(apiAway):
		}
		return true, resume()
	case LinkRemoved:
		if len(nics) != 1 {
			return false, nil
		}
		r.watch.excuse(p.uid)
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

// kill ends a process without which no agent serves.
func (r *run) kill(ctx context.Context, name string) error {
	defer r.watch.ended()
	return r.script(ctx, killProcess, name)
}

func (r *run) script(ctx context.Context, script string, args ...string) error {
	_, err := r.config.Node.run(ctx, script, args...)
	return err
}
