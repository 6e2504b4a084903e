// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// alignmentManifests are claims and pods of a NIC with a CPU of the same NUMA node, and
// of another one.
//
//go:embed alignment.yaml
var alignmentManifests string

// alignedPods are those of alignment.yaml, by whether the CPU is of the NIC's NUMA node.
var alignedPods = []struct {
	name    string
	aligned bool
}{{"aligned", true}, {"misaligned", false}}

// alignment has ib_write_lat measure as the mission does, inside one pod against its own
// address, with a CPU near the NIC and with a far one.
func (r *run) alignment(ctx context.Context, before string) error {
	if _, err := r.Kubectl.RunWithInput(ctx, alignmentManifests, "apply", "-n", namespace, "-f", "-"); err != nil {
		return err
	}
	for _, pod := range alignedPods {
		if err := r.began(ctx, pod.name, alignmentManifests); err != nil {
			return err
		}
		if err := r.sits(ctx, pod.name, pod.aligned); err != nil {
			return err
		}
		if err := r.verified(ctx, pod.name, pod.aligned); err != nil {
			return err
		}
		if err := r.loopback(ctx, pod.name); err != nil {
			return err
		}
	}
	return r.returned(ctx, before, alignedPods[0].name, alignedPods[1].name)
}

// verified wants plumbline verify to say of a pod that it has what it claimed, and whether
// it is aligned, once the agent has looked.
func (r *run) verified(ctx context.Context, pod string, aligned bool) error {
	status := metav1.ConditionFalse
	if aligned {
		status = metav1.ConditionTrue
	}
	var answer scenario.Answer
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		answer, err = r.Plumbline.Run(ctx, "verify", "pod/"+pod, "-n", namespace)
		return answer.Code == 0 && answer.Says("as claimed", metav1.ConditionTrue) && answer.Says("aligned", status), err
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	r.report.Finding(err == nil, "  plumbline verify", "as claimed True, aligned %s (%s)", status, answer.Ending())
	if err != nil {
		fmt.Fprint(r.Out, answer.Out)
	}
	return nil
}

// sits says by the kernel's own files where a pod's NIC is and where its processes run.
func (r *run) sits(ctx context.Context, pod string, aligned bool) error {
	// A virtio device has its node from the PCI function above it.
	const look = `d=$(readlink -f /sys/class/net/$1/device)
cat $d/numa_node 2>/dev/null || cat ${d%/*}/numa_node
sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status
for node in /sys/devices/system/node/node[0-9]*; do echo ${node##*node} $(cat $node/cpulist); done`
	out, err := r.Kubectl.Shell(ctx, namespace, pod, look, ifname)
	if err != nil {
		return err
	}
	place, err := parsePlace(out)
	if err != nil {
		return fmt.Errorf("pod %s: %w", pod, err)
	}
	near := place.cpus.IsSubsetOf(place.near)
	far := place.cpus.Intersection(place.near).IsEmpty()
	r.report.Finding(aligned && near || !aligned && far, pod, "%s is of NUMA node %d with CPUs %s, processes run on CPU %s", ifname, place.nic, place.near, place.cpus)
	return nil
}

// place is where a pod's NIC is and where its processes may run.
type place struct {
	// nic is the NIC's NUMA node, near are the CPUs of that.
	nic  int
	near cpuset.CPUSet
	// cpus are those of the pod's processes.
	cpus cpuset.CPUSet
}

// parsePlace reads the NIC's NUMA node, the CPUs, and a line for each NUMA node.
func parsePlace(out string) (place, error) {
	said := lines(out)
	if len(said) < 3 {
		return place{}, fmt.Errorf("read where it is: %q", out)
	}
	p := place{}
	var err error
	if p.nic, err = strconv.Atoi(said[0]); err != nil {
		return p, fmt.Errorf("read the NUMA node of its NIC: %w", err)
	}
	if p.cpus, err = cpuset.Parse(said[1]); err != nil {
		return p, fmt.Errorf("read its CPUs: %w", err)
	}
	for _, line := range said[2:] {
		node, list, _ := strings.Cut(line, " ")
		if node != said[0] {
			continue
		}
		if p.near, err = cpuset.Parse(list); err != nil {
			return p, fmt.Errorf("read the CPUs of NUMA node %s: %w", node, err)
		}
	}
	if p.near.IsEmpty() || p.cpus.IsEmpty() {
		return p, fmt.Errorf("read where it is: no CPUs in %q", out)
	}
	return p, nil
}

// loopback measures inside one pod, and has the claimed device's own counter of packets
// prove it: what a device sends to itself leaves it by no interface.
func (r *run) loopback(ctx context.Context, pod string) error {
	device := r.devices[pod]
	before, err := r.sentPackets(ctx, pod, device)
	if err != nil {
		return err
	}
	out, err := r.Kubectl.Shell(ctx, namespace, pod, latency.serve()+"\n"+latency.ask(), loopbackAddress)
	if err != nil {
		return err
	}
	after, err := r.sentPackets(ctx, pod, device)
	if err != nil {
		return err
	}
	r.row(out, latency)
	// Both sides are this pod's.
	r.report.Finding(after-before >= 2*latencyRounds, "  sent by "+pod, "%d packets by %s", after-before, device)
	return nil
}

// sentPackets is what an RDMA device of a pod has sent. A device that all network
// namespaces share shows its counters in the first one alone (drivers/infiniband/core/
// sysfs.c, ib_setup_port_attrs), and one that is the pod's in the pod alone.
func (r *run) sentPackets(ctx context.Context, pod, device string) (int, error) {
	const read = `cat /sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts`
	var out string
	var err error
	if r.Exclusive {
		out, err = r.Kubectl.Shell(ctx, namespace, pod, read, device)
	} else {
		out, err = r.Shell(ctx, read, device)
	}
	if err != nil {
		return 0, fmt.Errorf("read what %s has sent: %w", device, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		return 0, fmt.Errorf("read what %s has sent: %w", device, err)
	}
	return n, nil
}
