// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/report"
)

// gids prints each GID of each RDMA device's first port, with its index and type. An entry
// of the table that is not used has no type.
const gids = `cd /sys/class/infiniband 2>/dev/null || exit 0
for d in *; do
  for f in "$d"/ports/1/gids/*; do
    i=${f##*/}
    { read -r t <"$d/ports/1/gid_attrs/types/$i"; } 2>/dev/null || continue
    { read -r g <"$f"; } 2>/dev/null && echo "$d $i $g $t"
  done
done`

// findRDMA finds each arm's RDMA device in each pod: the one of which a GID is the address of
// the arm's NIC. By names it is not found, since the kernel shows a pod the RDMA devices of
// others, whose interfaces are called as its own.
func (m *measurement) findRDMA(ctx context.Context) error {
	if m.plan.Tool.Carrier != plan.RDMADevices {
		return nil
	}
	for _, letter := range []report.Letter{report.A, report.B} {
		t := m.targets[letter]
		for i, at := range []struct {
			role string
			end  *plan.End
		}{{m.plan.Server.Role, &t.ends.Server}, {m.plan.Client.Role, &t.ends.Client}} {
			pod := m.pods[at.role]
			// A GID comes a moment after its address.
			err := m.await(ctx, func(ctx context.Context) (bool, error) {
				out, err := m.Execute(ctx, pod.Namespace, pod.Name, []string{"sh", "-c", gids})
				if err != nil {
					return false, m.notExecuted("read the GIDs of pod "+pod.Name, pod.Name, err)
				}
				at.end.RDMA, at.end.GID = deviceOf(string(out), at.end.Address)
				return at.end.RDMA != "", nil
			})
			if errors.Is(err, errPatience) {
				return fmt.Errorf("arm %s: no RDMA device in pod %s has a GID of RoCE v2 that is %s: want a RoCE NIC that is given an address, such as by --addresses",
					t.arm.Name, pod.Name, at.end.Address)
			}
			if err != nil {
				return err
			}
			t.carriers[i] = at.end.RDMA
		}
		m.targets[letter] = t
		arm := map[report.Letter]*report.Arm{report.A: &m.report.A, report.B: &m.report.B}[letter]
		arm.RDMADevices = t.carriers[:]
	}
	return nil
}

// deviceOf is the RDMA device that has an address as a GID of RoCE v2, and the GID's index.
func deviceOf(text string, address netip.Addr) (device string, index int) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 5 || words[3]+" "+words[4] != "RoCE v2" {
			continue
		}
		gid, err := netip.ParseAddr(words[2])
		number, failed := strconv.Atoi(words[1])
		if err == nil && failed == nil && gid.Unmap() == address {
			return words[0], number
		}
	}
	return "", 0
}

// packets prints what RDMA devices have received and sent, as far as their drivers count it:
// those of hardware in counters (port 1 by the management's own names), others in hw_counters.
const packets = `for d in "$@"; do
  for f in counters/port_rcv_packets counters/port_xmit_packets hw_counters/rcvd_pkts hw_counters/sent_pkts hw_counters/rx_pkts hw_counters/tx_pkts; do
    { read -r n <"/sys/class/infiniband/$d/ports/1/$f"; } 2>/dev/null && echo "$d $f $n"
  done
done
true`

// readPackets asks the kernel for the packets of a pod's RDMA devices. Those that all network
// namespaces share show their counters in the first one alone (drivers/infiniband/core/
// sysfs.c, ib_setup_port_attrs), where the node's agent is.
func (m *measurement) readPackets(ctx context.Context, pod *corev1.Pod, devices []string) (map[string]counters, error) {
	out, err := m.Execute(ctx, pod.Namespace, pod.Name, append([]string{"sh", "-c", packets, "sh"}, devices...))
	if err != nil {
		return nil, m.notExecuted("read the counters of pod "+pod.Name, pod.Name, err)
	}
	all, err := parsePackets(string(out), devices)
	if !errors.Is(err, errNotCounted) {
		return all, err
	}
	out, err = m.HostPackets(ctx, pod.Spec.NodeName, devices)
	if err != nil {
		return nil, fmt.Errorf("read the counters of pod %s, which shows none of its RDMA devices: %w", pod.Name, err)
	}
	if all, err = parsePackets(string(out), devices); err != nil {
		return nil, fmt.Errorf("read the counters of node %s: %w", pod.Spec.NodeName, err)
	}
	return all, nil
}

// errNotCounted is of an RDMA device without counters of packets.
var errNotCounted = errors.New("its packets are counted nowhere")

func parsePackets(text string, devices []string) (map[string]counters, error) {
	all := map[string]counters{}
	found := map[string][2]bool{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 3 {
			return nil, fmt.Errorf("counters of RDMA devices: %q, want a device, a file and a number", line)
		}
		n, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("counters of RDMA devices: %s of %s: %w", words[1], words[0], err)
		}
		sent := strings.Contains(words[1], "xmit") || strings.Contains(words[1], "sent") || strings.Contains(words[1], "tx")
		c, seen := all[words[0]], found[words[0]]
		// The first that there is counts: hardware may have both.
		switch {
		case sent && !seen[1]:
			c.sent, seen[1] = n, true
		case !sent && !seen[0]:
			c.received, seen[0] = n, true
		}
		all[words[0]], found[words[0]] = c, seen
	}
	for _, device := range devices {
		if found[device] != [2]bool{true, true} {
			return nil, fmt.Errorf("RDMA device %s: %w", device, errNotCounted)
		}
	}
	return all, nil
}

// carriersOf are the RDMA devices of both arms on one side.
func (m *measurement) carriersOf(side int) []string {
	all := []string{m.targets[report.A].carriers[side], m.targets[report.B].carriers[side]}
	slices.Sort(all)
	return slices.Compact(all)
}
