// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// measurement is one run of a command of perftest.
type measurement struct {
	// command is as docs/rdma.md has it, in the words of a pod's shell, and rounds are its
	// iterations: few, since processors are emulated.
	command string
	rounds  int
	// row begins the line of the result that is printed.
	row string
	// packets are the least that the pods' RDMA devices must send, and payload are the
	// client's bytes in them.
	packets map[string]int
	payload int
}

const (
	latencyRounds = 200
	perSize       = 5
	// sizes are those of -a, from two bytes to the largest, each twice the one before.
	sizes, largest = 23, 2 << (sizes - 1)
)

const (
	// smallestPacket is one of RoCE v2 over IPv4 without payload: 14 bytes of Ethernet, 20
	// of IPv4, 8 of UDP, 12 of the transport's header and 4 of its checksum.
	smallestPacket = 58
	// largestMTU is InfiniBand's.
	largestMTU = 4096
	// besides is how many bytes eth0 may send meanwhile: looking for routers and neighbours
	// takes some, and none of the measurements as few.
	besides = 4096
)

// latency measures that of a write: either side sends one for each round.
var latency = measurement{
	command: "ib_write_lat -d ${UCX_NET_DEVICES%:*} -x $NCCL_IB_GID_INDEX -F", rounds: latencyRounds, row: "2",
	packets: map[string]int{server: latencyRounds, client: latencyRounds},
}

// bandwidth is that of writes by the client, of which the server acknowledges each size at
// least once.
var bandwidth = measurement{
	command: "ib_write_bw -d ${UCX_NET_DEVICES%:*} -a -F --report_gbits -q 1", rounds: perSize, row: strconv.Itoa(largest),
	packets: map[string]int{server: sizes, client: perSize * (2*largest - 2) / largestMTU}, payload: perSize * (2*largest - 2),
}

var measurements = []measurement{latency, bandwidth}

// shell is the command as a pod's shell gets it, but for the server's address.
func (m measurement) shell() string { return fmt.Sprintf("timeout 600 %s -n %d", m.command, m.rounds) }

// serve begins the server's side, and ask is the client's: the server may not listen yet.
func (m measurement) serve() string { return m.shell() + " >/tmp/server.log 2>&1 &" }

func (m measurement) ask() string {
	return "i=0; until " + m.shell() + ` "$1" >/tmp/client.log 2>&1; do [ $((i=i+1)) -lt 20 ] || break; sleep 1; done; cat /tmp/client.log`
}

// measure runs a command between the pods and looks at the counters of what they claimed.
func (r *run) measure(ctx context.Context, m measurement) error {
	before, err := r.sentByAll(ctx)
	if err != nil {
		return err
	}
	if _, err := r.Kubectl.Shell(ctx, namespace, server, m.serve()); err != nil {
		return err
	}
	out, err := r.Kubectl.Shell(ctx, namespace, client, m.ask(), addresses[server].String())
	if err != nil {
		return err
	}
	after, err := r.sentByAll(ctx)
	if err != nil {
		return err
	}
	r.row(out, m)
	for _, pod := range []string{server, client} {
		least := m.packets[pod] * smallestPacket
		if pod == client {
			least += m.payload
		}
		packets := after[pod].packets - before[pod].packets
		sent, beside := after[pod].bytes[ifname]-before[pod].bytes[ifname], after[pod].bytes["eth0"]-before[pod].bytes["eth0"]
		r.report.Finding(packets >= m.packets[pod] && sent >= least && beside <= besides, "  sent by "+pod,
			"%d packets by %s, %d bytes by %s, %d by eth0", packets, r.devices[pod], sent, ifname, beside)
	}
	return nil
}

// row reports the result of a command, labelled as what it is, or all that it printed
// where it has none.
func (r *run) row(out string, m measurement) {
	row := result(out, m.row)
	r.report.Finding(row != "", m.command, "emulated, %s", row)
	if row == "" {
		fmt.Fprint(r.Out, out)
	}
}

// traffic is what a pod has sent: packets by its RDMA device, bytes by interface.
type traffic struct {
	packets int
	bytes   map[string]int
}

// sentByAll is what server and client have sent.
func (r *run) sentByAll(ctx context.Context) (map[string]traffic, error) {
	all := map[string]traffic{}
	for _, pod := range []string{server, client} {
		packets, err := r.sentPackets(ctx, pod, r.devices[pod])
		if err != nil {
			return nil, err
		}
		bytes, err := r.sentBytes(ctx, pod)
		if err != nil {
			return nil, err
		}
		all[pod] = traffic{packets, bytes}
	}
	return all, nil
}

// sentBytes is what a pod's interfaces have sent.
func (r *run) sentBytes(ctx context.Context, pod string) (map[string]int, error) {
	out, err := r.Kubectl.Shell(ctx, namespace, pod, `cd /sys/class/net; for i in *; do echo $i $(cat $i/statistics/tx_bytes); done`)
	if err != nil {
		return nil, err
	}
	sent := map[string]int{}
	for line := range strings.Lines(out) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			return nil, fmt.Errorf("read the counter of %s: %w", name, err)
		}
		sent[name] = n
	}
	return sent, nil
}

// result is the row of a table of perftest that begins with this number of bytes, under
// the table's head, or empty.
func result(out, bytes string) string {
	var head string
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		switch {
		case len(words) > 0 && words[0] == "#bytes":
			head = line
		case head != "" && len(words) > 2 && words[0] == bytes:
			return strings.Join(words, " ") + " (" + strings.Join(strings.Fields(head), " ") + ")"
		}
	}
	return ""
}
