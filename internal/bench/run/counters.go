// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/bench/plan"
)

// counters are the bytes of one interface since it is in the pod, or the packets of an RDMA
// device.
type counters struct{ received, sent int64 }

// readCounters asks the kernel of a pod, that of the server (0) or of the client (1).
func (m *measurement) readCounters(ctx context.Context, side int, role string) (map[string]counters, error) {
	pod := m.pods[role]
	if m.plan.Tool.Carrier == plan.RDMADevices {
		return m.readPackets(ctx, pod, m.carriersOf(side))
	}
	out, err := m.Execute(ctx, pod.Namespace, pod.Name, []string{"cat", "/proc/net/dev"})
	if err != nil {
		return nil, m.notExecuted("read the counters of pod "+pod.Name, pod.Name, err)
	}
	all, err := parseCounters(string(out))
	if err != nil {
		return nil, fmt.Errorf("read the counters of pod %s: %w", pod.Name, err)
	}
	return all, nil
}

// parseCounters reads /proc/net/dev: two lines of head, then
//
//	eth0: 1296 16 0 0 0 0 0 0 1226 15 0 0 0 0 0 0
//
// where the first number is of bytes received and the ninth of bytes sent.
func parseCounters(text string) (map[string]counters, error) {
	all := map[string]counters{}
	for number, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if number < 2 {
			continue
		}
		name, rest, found := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if !found || len(fields) < 16 {
			return nil, fmt.Errorf("/proc/net/dev: line %d is %q, want an interface with 16 numbers", number+1, line)
		}
		received, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("/proc/net/dev: line %d: %w", number+1, err)
		}
		sent, err := strconv.ParseInt(fields[8], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("/proc/net/dev: line %d: %w", number+1, err)
		}
		all[strings.TrimSpace(name)] = counters{received: received, sent: sent}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("/proc/net/dev: no interface in %q", text)
	}
	return all, nil
}

// since are the counters that were added.
func since(before, after map[string]counters) map[string]counters {
	added := map[string]counters{}
	for name, c := range after {
		added[name] = counters{received: c.received - before[name].received, sent: c.sent - before[name].sent}
	}
	return added
}
