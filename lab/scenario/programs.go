// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"plumbline.dev/plumbline/lab/scenario/await"
	"plumbline.dev/plumbline/lab/scenario/judge"
)

// attachScript gives each NIC an eBPF program, as a monitor on the node would.
// busybox's shell prefers its own tc, which knows none.
const attachScript = `set -e
tc=/usr/local/sbin/tc
pin=/sys/fs/bpf/lab_pass
[ -e $pin ] || /init pin-program $pin
for nic; do
	$tc filter show dev $nic ingress | grep -q lab_pass && continue
	$tc qdisc replace dev $nic clsact
	$tc filter add dev $nic ingress bpf direct-action object-pinned $pin
done`

// programsScript counts NICs with that program, among those of the network
// namespace of process $1 with an MTU of $2; 0 is any MTU.
const programsScript = `pid=$1 mtu=$2 with=0 of=0
for nic in $(nsenter -t $pid -n /usr/local/sbin/ip -oneline link show | awk -F '[:@ ]+' -v m="mtu $mtu " 'm == "mtu 0 " || index($0, m) { print $2 }'); do
	of=$((of + 1))
	nsenter -t $pid -n /usr/local/sbin/tc filter show dev $nic ingress | grep -q lab_pass && with=$((with + 1))
done
echo $with of $of`

// podProcess prints a process of the pod whose UID is $1.
const podProcess = `for procs in /sys/fs/cgroup/kubepods/*/pod"$1"/*/cgroup.procs /sys/fs/cgroup/kubepods/pod"$1"/*/cgroup.procs; do
	read -r pid <"$procs" 2>/dev/null || continue
	echo $pid
	exit
done
echo "no process of pod $1" >&2; exit 1`

// onNode runs a script on the node as root.
type onNode func(ctx context.Context, script string, args ...string) (string, error)

// programsBack waits for the programs to be on the node's NICs again.
func (d Demo) programsBack(ctx context.Context, run onNode) (judge.Verdict, error) {
	v := judge.Verdict{What: "after the pod each NIC has its eBPF program again"}
	err := poll(ctx, func() (bool, error) {
		found, err := run(ctx, programsScript, "1", "0")
		if err != nil {
			return false, err
		}
		v.Why = fmt.Sprintf("%s of the node's interfaces", strings.TrimSpace(found))
		v.OK = strings.HasPrefix(found, fmt.Sprintf("%d of", len(tpuNICs)))
		return v.OK, nil
	})
	if errors.Is(err, await.ErrLate) {
		return v, nil
	}
	return v, err
}

// judgePrograms reads what programsScript counted among the pod's NICs.
func judgePrograms(counted string) judge.Verdict {
	return judge.Verdict{
		What: "their eBPF programs are off in the pod",
		OK:   strings.TrimSpace(counted) == fmt.Sprintf("0 of %d", len(tpuNICs)),
		Why:  strings.TrimSpace(counted) + " NICs with the program",
	}
}
