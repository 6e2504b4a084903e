// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package density

import (
	"context"
	"fmt"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// addLinks makes stand-ins for NICs, as many as pods: the agent offers what has
// names as the node's own have. The shell's ip does not name their far ends, which
// are up already where they are a pod's.
const addLinks = `i=0
while [ $i -lt $1 ]; do
	ip link add nicdensity$i type veth && ip link set nicdensity$i up || exit 1
	i=$((i+1))
done
for far in /sys/class/net/veth*; do ip link set "${far##*/}" up || exit 1; done`

const removeLinks = `for link in /sys/class/net/nicdensity*; do
	[ ! -e "$link" ] || ip link del "${link##*/}" || exit 1
done`

// readAgent asks the kernel how long the serving agent has run, in clock ticks of
// its own (utime and stime of /proc/PID/stat), and the agent how often it looked.
const readAgent = harness.FindProcess + `pid=$(find_agent) || { echo "no agent runs" >&2; exit 1; }
read -r stat <"/proc/$pid/stat" || exit 1
set -- ${stat##*) }
looks=$(nsenter -t "$pid" -m /usr/bin/plumbline-agent metrics | awk '$1 == "plumbline_agent_verify_seconds_count" { print $2 }')
echo "$pid $((${12} + ${13})) $(getconf CLK_TCK 2>/dev/null || echo 100) $looks"`

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
