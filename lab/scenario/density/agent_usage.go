// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package density

import (
	"context"
	"fmt"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// addLinks makes stand-ins for NICs, as many as pods, named as the node's own so that
// the agent offers them. The shell's ip cannot name a veth's peer: it brings up every
// one, of which those of pods are up already.
const addLinks = `i=0
while [ $i -lt $1 ]; do
	ip link add nicdensity$i type veth && ip link set nicdensity$i up || exit 1
	i=$((i+1))
done
for far in /sys/class/net/veth*; do ip link set "${far##*/}" up || exit 1; done`

const removeLinks = `for link in /sys/class/net/nicdensity*; do
	[ ! -e "$link" ] || ip link del "${link##*/}" || exit 1
done`

// readAgent prints the processor time of the serving agent in clock ticks (utime and
// stime of /proc/PID/stat), and from its metrics how often it has verified its pods.
const readAgent = harness.FindProcess + `pid=$(find_agent) || { echo "no agent runs" >&2; exit 1; }
read -r stat <"/proc/$pid/stat" || exit 1
set -- ${stat##*) }
verifications=$(nsenter -t "$pid" -m /usr/bin/plumbline-agent metrics | awk '$1 == "plumbline_agent_verify_seconds_count" { print $2 }')
echo "$pid $((${12} + ${13})) $(getconf CLK_TCK 2>/dev/null || echo 100) $verifications"`

// agentUsage is what an agent has used since it started.
type agentUsage struct {
	pid, verifications int
	// seconds are of one processor.
	seconds float64
}

func (r *run) agentUsage(ctx context.Context) (u agentUsage, err error) {
	out, err := r.Shell(ctx, readAgent)
	if err != nil {
		return u, fmt.Errorf("read the processor time of the agent: %w", err)
	}
	var ticks, hertz int
	if _, err := fmt.Sscan(out, &u.pid, &ticks, &hertz, &u.verifications); err != nil {
		return u, fmt.Errorf("read the processor time of the agent from %q: %w", out, err)
	}
	u.seconds = float64(ticks) / float64(hertz)
	return u, nil
}
