// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"context"
	"fmt"
)

// addLinks makes stand-ins for NICs, as many as pods, with both ends up: the
// agent offers what has the names of the node's own (docs of plumblab up).
const addLinks = `i=0
while [ $i -lt $1 ]; do
	ip link add niccrowd$i type veth peer name crowd$i && ip link set niccrowd$i up && ip link set crowd$i up || exit 1
	i=$((i+1))
done`

const removeLinks = `for link in /sys/class/net/crowd* /sys/class/net/niccrowd*; do
	[ ! -e "$link" ] || ip link del "${link##*/}" 2>/dev/null
done
exit 0`

// readAgent asks the kernel how long the serving agent has run, in clock ticks of
// its own (utime and stime of /proc/PID/stat), and the agent how often it looked.
const readAgent = `for process in /proc/[0-9]*; do
	read -r comm <"$process/comm" && [ "$comm" = plumbline-agent ] || continue
	pid=${process#/proc/}
	read -r stat <"$process/stat"
	set -- ${stat##*) }
	looks=$(nsenter -t "$pid" -m /usr/bin/plumbline-agent metrics | awk '$1 == "plumbline_agent_verify_seconds_count" { print $2 }')
	echo "$pid $((${12} + ${13})) $(getconf CLK_TCK 2>/dev/null || echo 100) $looks"
	exit 0
done 2>/dev/null
echo "no agent runs" >&2
exit 1`

// spent is what an agent has spent since it started.
type spent struct {
	pid, looks int
	// seconds are of one processor.
	seconds float64
}

func (r *run) spent(ctx context.Context) (s spent, err error) {
	out, err := r.Shell(ctx, readAgent)
	if err != nil {
		return s, fmt.Errorf("read what the agent has spent: %w", err)
	}
	var ticks, hertz int
	if _, err := fmt.Sscan(out, &s.pid, &ticks, &hertz, &s.looks); err != nil {
		return s, fmt.Errorf("read what the agent has spent from %q: %w", out, err)
	}
	s.seconds = float64(ticks) / float64(hertz)
	return s, nil
}
