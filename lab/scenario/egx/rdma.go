// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package egx

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// measure is the article's command, with few iterations: processors are emulated. Of
// largest bytes is its last row.
const (
	perSize = 5
	largest = 8 << 20
)

var measure = fmt.Sprintf("ib_write_bw -a -F --report_gbits -q 1 -n %d", perSize)

// rdma runs the article's benchmark between the test pods.
func (r *run) rdma(ctx context.Context) error {
	devices := map[string]string{}
	for _, pod := range []string{firstPod, secondPod} {
		var err error
		if devices[pod], err = r.withDevice(ctx, pod); err != nil {
			return err
		}
	}
	before, err := r.sent(ctx)
	if err != nil {
		return err
	}
	const serve = `timeout 900 $1 -d $2 >/tmp/server.log 2>&1 &`
	if _, err := r.Kubectl.Shell(ctx, namespace, firstPod, serve, measure, devices[firstPod]); err != nil {
		return err
	}
	// The server may not listen yet.
	const ask = `i=0; until timeout 900 $1 -d $2 $3 >/tmp/client.log 2>&1; do [ $((i=i+1)) -lt 20 ] || break; sleep 1; done; cat /tmp/client.log`
	out, err := r.Kubectl.Shell(ctx, namespace, secondPod, ask, measure, devices[secondPod], r.addresses[firstPod].String())
	if err != nil {
		return err
	}
	after, err := r.sent(ctx)
	if err != nil {
		return err
	}
	row := lastRow(out)
	r.report.Finding(row != "", measure, "%s", row)
	if row == "" {
		fmt.Fprint(r.Out, out)
	}
	// Two links on one NIC reach each other within the node, so that the NIC sends nothing.
	const least = perSize * (2*largest - 2)
	sent, beside := after[ifname]-before[ifname], after["eth0"]-before["eth0"]
	r.report.Finding(sent >= least && beside < sent, "  counted", "%d bytes by %s of %s, %d by eth0", sent, ifname, secondPod, beside)
	return nil
}

// tries is how often a pod may begin anew for want of the lab's device: the container
// runtime does without a plugin that took two seconds, as the lab's may on a busy host.
const tries = 3

// withDevice wants a pod to have the files of the NIC's RDMA device alone, and returns the
// name of the one that the lab makes on its link.
func (r *run) withDevice(ctx context.Context, pod string) (string, error) {
	for try := 1; ; try++ {
		nic, own, others, err := r.rdmaOf(ctx, pod)
		if err != nil {
			return "", err
		}
		if own != "" || try == tries {
			r.report.Finding(nic && own != "" && others == 0, pod, "has the files of %s and of no other NIC, and the lab's %s", r.rdmaDevice, own)
			return own, r.gid(ctx, pod)
		}
		if err := r.endPod(ctx, pod); err != nil {
			return "", err
		}
		if err := r.started(ctx, pod); err != nil {
			return "", err
		}
	}
}

// rdmaOf looks at the RDMA devices of which a pod has files: whether the NIC's is there,
// the one on the pod's own link, and how many others.
func (r *run) rdmaOf(ctx context.Context, pod string) (nic bool, own string, others int, err error) {
	const look = `cd /dev/infiniband; for f in *; do
[ -e /sys/class/infiniband_verbs/$f ] || continue
d=$(cat /sys/class/infiniband_verbs/$f/ibdev); echo $f $d $(cat /sys/class/infiniband/$d/parent)
done`
	out, err := r.Kubectl.Shell(ctx, namespace, pod, look)
	if err != nil {
		return false, "", 0, err
	}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		switch {
		case len(words) == 3 && words[2] == ifname:
			own = words[1]
		case len(words) > 1 && words[1] == r.rdmaDevice:
			nic = true
		case len(words) > 1:
			others++
		}
	}
	return nic, own, others, nil
}

// gid wants the NIC's own RDMA device to have a GID of the pod's address, as hardware uses
// it for the pod's link.
func (r *run) gid(ctx context.Context, pod string) error {
	want := netip.AddrFrom16(r.addresses[pod].As16())
	found := false
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		out, err := r.Shell(ctx, `cat /sys/class/infiniband/$1/ports/1/gids/* 2>/dev/null || true`, r.rdmaDevice)
		if err != nil {
			return false, err
		}
		for line := range strings.Lines(out) {
			if gid, err := netip.ParseAddr(strings.TrimSpace(line)); err == nil && gid == want {
				found = true
			}
		}
		return found, nil
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	r.report.Finding(found, "  GID", "%s has one of %s", r.rdmaDevice, r.addresses[pod])
	return nil
}

// sent are the bytes that the second pod's interfaces have sent.
func (r *run) sent(ctx context.Context) (map[string]int, error) {
	out, err := r.Kubectl.Shell(ctx, namespace, secondPod, `cd /sys/class/net; for i in *; do echo $i $(cat $i/statistics/tx_bytes); done`)
	if err != nil {
		return nil, err
	}
	sent := map[string]int{}
	for line := range strings.Lines(out) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		if sent[name], err = strconv.Atoi(count); err != nil {
			return nil, fmt.Errorf("read the counter of %s: %w", name, err)
		}
	}
	return sent, nil
}

// lastRow is that of the largest message in a table of perftest, under the table's head,
// or empty.
func lastRow(out string) string {
	var head string
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		switch {
		case len(words) > 0 && words[0] == "#bytes":
			head = strings.Join(words, " ")
		case head != "" && len(words) > 2 && words[0] == strconv.Itoa(largest):
			return strings.Join(words, " ") + " (" + head + ")"
		}
	}
	return ""
}
