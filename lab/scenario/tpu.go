// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/lab/scenario/claimcheck"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// The TPU example's objects.
const (
	tpuPod       = "neper-0"
	tpuSecondPod = "neper-1"
	tpuExample   = "tpu-v6e-multi-nic"
)

// tpuNICs are the machine's NICs on the networks that the claim names.
var tpuNICs = []string{"eth1", "eth2"}

// tpuObjects are what it applies, pods' owner first. The class goes too: the
// cluster is this part's own.
var tpuObjects = [][]string{
	{"statefulset", "neper"},
	{"pod", tpuPod, tpuSecondPod},
	{"resourceclaimtemplate", "tpu-net-interfaces"},
}

// TPU is mission/tpu-v6e-multi-nic.txt on a node of that machine: the claim as
// printed, which this node must refuse by field, then without those fields. run
// runs a script there.
func (d Demo) TPU(ctx context.Context, run func(ctx context.Context, script string, args ...string) (string, error)) (ok bool, err error) {
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
		defer cancel()
		err = errors.Join(err, d.deleteTPU(clean))
	}()
	if err := d.deleteTPU(ctx); err != nil {
		return false, err
	}
	if _, err := run(ctx, attachScript, tpuNICs...); err != nil {
		return false, fmt.Errorf("give the NICs eBPF programs: %w", err)
	}
	d.heading("The TPU example on %s, as printed: refused by field", d.Node)
	if _, err := d.Kubectl.Run(ctx, "apply", "-k", d.overlay(tpuExample)); err != nil {
		return false, err
	}
	refused, err := d.tpuRefusal(ctx)
	if err != nil {
		return false, err
	}
	d.say(refused)
	if err := d.deleteTPU(ctx); err != nil {
		return false, err
	}
	d.heading("The same without the IPv4 sizes of Big TCP and the private flag")
	if _, err := d.Kubectl.Run(ctx, "apply", "-k", d.overlay(tpuExample)+"-e1000e"); err != nil {
		return false, err
	}
	if err := d.waitForPod(ctx, "default", tpuPod); err != nil {
		return false, err
	}
	results, err := d.tpuResults(ctx, run)
	if err != nil {
		return false, err
	}
	if err := d.deleteTPU(ctx); err != nil {
		return false, err
	}
	back, err := d.programsBack(ctx, run)
	if err != nil {
		return false, err
	}
	ok = refused.OK
	for _, v := range append(results, back) {
		d.say(v)
		ok = ok && v.OK
	}
	return ok, nil
}

func (d Demo) say(v claimcheck.Result) {
	fmt.Fprintf(d.Out, "  %s  %s\n", claimcheck.Mark(v.OK), v.What)
	for line := range strings.Lines(strings.TrimSpace(v.Why)) {
		fmt.Fprintf(d.Out, "      %s\n", strings.TrimSpace(line))
	}
}

// tpuRefusal waits for the kubelet's event about the claim.
func (d Demo) tpuRefusal(ctx context.Context) (claimcheck.Result, error) {
	v := claimcheck.Result{What: "the claim names each field that this node cannot meet"}
	expected := []string{"interface.gsoIPv4MaxSize", "interface.groIPv4MaxSize", "ethtool.privateFlags"}
	err := poll(ctx, func() (bool, error) {
		var events corev1.EventList
		if err := d.Kubectl.Get(ctx, &events, "events", "--field-selector", "involvedObject.name="+tpuPod); err != nil {
			return false, err
		}
		for _, e := range events.Items {
			missing := 0
			for _, field := range expected {
				if !strings.Contains(e.Message, field) {
					missing++
				}
			}
			if missing < len(expected) {
				v.Why, v.OK = e.Message, missing == 0
			}
		}
		return v.OK, nil
	})
	if errors.Is(err, harness.ErrTimeout) {
		return v, nil
	}
	return v, err
}

// tpuResults checks the running pod in the node's own kernel.
func (d Demo) tpuResults(ctx context.Context, run onNode) ([]claimcheck.Result, error) {
	var pod corev1.Pod
	if err := d.Kubectl.Get(ctx, &pod, "pod", tpuPod); err != nil {
		return nil, err
	}
	pid, err := run(ctx, podProcess, string(pod.UID))
	if err != nil {
		return nil, err
	}
	pid = strings.TrimSpace(pid)
	links, err := run(ctx, linksScript, pid)
	if err != nil {
		return nil, err
	}
	programs, err := run(ctx, programsScript, pid, "8896")
	if err != nil {
		return nil, err
	}
	sysctls, err := d.Kubectl.Run(ctx, "logs", tpuPod, "-c", "network-optimization-sysctls")
	if err != nil {
		return nil, err
	}
	second, err := d.tpuSecond(ctx)
	if err != nil {
		return nil, err
	}
	return []claimcheck.Result{checkTPULinks(links), checkPrograms(programs), checkTPUSysctls(sysctls), second}, nil
}

// linksScript prints the interfaces that process $1 sees, with the
// details of iproute2: busybox's own ip, which its nsenter prefers, prints less.
const linksScript = `nsenter -t "$1" -n /usr/local/sbin/ip -details -oneline link show`

// checkTPULinks reads one line a link.
func checkTPULinks(links string) claimcheck.Result {
	v := claimcheck.Result{What: "two NICs: MTU 8896, GSO and GRO of 65536"}
	found := 0
	for line := range strings.Lines(links) {
		if !strings.Contains(line, "mtu 8896 ") {
			continue
		}
		fields := strings.Fields(line)
		link := strings.TrimSuffix(fields[1], ":") + " mtu 8896"
		good := true
		for _, size := range []string{"gso_max_size", "gro_max_size"} {
			good = good && strings.Contains(line, size+" 65536")
			if _, after, ok := strings.Cut(line, size+" "); ok {
				value, _, _ := strings.Cut(after, " ")
				link += " " + size + " " + value
			}
		}
		if good {
			found++
		}
		v.Why += link + "\n"
	}
	v.OK = found == len(tpuNICs)
	return v
}

// checkTPUSysctls: what the kernel lacks is named by the shell that tried.
func checkTPUSysctls(log string) claimcheck.Result {
	return claimcheck.Result{
		What: "sysctls that this kernel lacks in a pod are named by the document's own script",
		OK:   strings.Contains(log, "tcp_rto_min_us"), Why: log,
	}
}

// tpuSecond: the second replica asks for four more TPUs.
func (d Demo) tpuSecond(ctx context.Context) (claimcheck.Result, error) {
	v := claimcheck.Result{What: "the second replica waits for another TPU node"}
	err := poll(ctx, func() (bool, error) {
		var pod corev1.Pod
		if err := d.Kubectl.Get(ctx, &pod, "pod", tpuSecondPod, "--ignore-not-found"); err != nil {
			return false, nil // not made yet
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				v.Why, v.OK = c.Message, strings.Contains(c.Message, "google.com/tpu")
			}
		}
		return v.OK, nil
	})
	if errors.Is(err, harness.ErrTimeout) {
		return v, nil
	}
	return v, err
}

func (d Demo) deleteTPU(ctx context.Context) error {
	for _, objects := range tpuObjects {
		if err := d.delete(ctx, "default", objects); err != nil {
			return err
		}
	}
	return nil
}

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
func (d Demo) programsBack(ctx context.Context, run onNode) (claimcheck.Result, error) {
	v := claimcheck.Result{What: "after the pod each NIC has its eBPF program again"}
	err := poll(ctx, func() (bool, error) {
		found, err := run(ctx, programsScript, "1", "0")
		if err != nil {
			return false, err
		}
		v.Why = fmt.Sprintf("%s of the node's interfaces", strings.TrimSpace(found))
		v.OK = strings.HasPrefix(found, fmt.Sprintf("%d of", len(tpuNICs)))
		return v.OK, nil
	})
	if errors.Is(err, harness.ErrTimeout) {
		return v, nil
	}
	return v, err
}

// checkPrograms reads what programsScript counted among the pod's NICs.
func checkPrograms(counted string) claimcheck.Result {
	return claimcheck.Result{
		What: "their eBPF programs are off in the pod",
		OK:   strings.TrimSpace(counted) == fmt.Sprintf("0 of %d", len(tpuNICs)),
		Why:  strings.TrimSpace(counted) + " NICs with the program",
	}
}
