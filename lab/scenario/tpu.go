// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/lab/scenario/await"
	"plumbline.dev/plumbline/lab/scenario/judge"
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
	verdicts, err := d.tpuVerdicts(ctx, run)
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
	for _, v := range append(verdicts, back) {
		d.say(v)
		ok = ok && v.OK
	}
	return ok, nil
}

func (d Demo) say(v judge.Verdict) {
	fmt.Fprintf(d.Out, "  %s  %s\n", judge.Mark(v.OK), v.What)
	for line := range strings.Lines(strings.TrimSpace(v.Why)) {
		fmt.Fprintf(d.Out, "      %s\n", strings.TrimSpace(line))
	}
}

// tpuRefusal waits for what the kubelet tells of the claim.
func (d Demo) tpuRefusal(ctx context.Context) (judge.Verdict, error) {
	v := judge.Verdict{What: "the claim names each field that this node cannot meet"}
	wanted := []string{"interface.gsoIPv4MaxSize", "interface.groIPv4MaxSize", "ethtool.privateFlags"}
	err := poll(ctx, func() (bool, error) {
		var events corev1.EventList
		if err := d.Kubectl.Get(ctx, &events, "events", "--field-selector", "involvedObject.name="+tpuPod); err != nil {
			return false, err
		}
		for _, e := range events.Items {
			missing := 0
			for _, field := range wanted {
				if !strings.Contains(e.Message, field) {
					missing++
				}
			}
			if missing < len(wanted) {
				v.Why, v.OK = e.Message, missing == 0
			}
		}
		return v.OK, nil
	})
	if errors.Is(err, await.ErrLate) {
		return v, nil
	}
	return v, err
}

// tpuVerdicts judge the pod that runs, from the node's own kernel.
func (d Demo) tpuVerdicts(ctx context.Context, run onNode) ([]judge.Verdict, error) {
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
	return []judge.Verdict{judgeTPULinks(links), judgePrograms(programs), judgeTPUSysctls(sysctls), second}, nil
}

// linksScript prints the interfaces that process $1 sees, as iproute2 tells them
// in detail: busybox's own ip, which its nsenter prefers, tells less.
const linksScript = `nsenter -t "$1" -n /usr/local/sbin/ip -details -oneline link show`

// judgeTPULinks reads one line a link.
func judgeTPULinks(links string) judge.Verdict {
	v := judge.Verdict{What: "two NICs: MTU 8896, GSO and GRO of 65536"}
	found := 0
	for line := range strings.Lines(links) {
		if !strings.Contains(line, "mtu 8896 ") {
			continue
		}
		fields := strings.Fields(line)
		told := strings.TrimSuffix(fields[1], ":") + " mtu 8896"
		good := true
		for _, size := range []string{"gso_max_size", "gro_max_size"} {
			good = good && strings.Contains(line, size+" 65536")
			if _, after, ok := strings.Cut(line, size+" "); ok {
				value, _, _ := strings.Cut(after, " ")
				told += " " + size + " " + value
			}
		}
		if good {
			found++
		}
		v.Why += told + "\n"
	}
	v.OK = found == len(tpuNICs)
	return v
}

// judgeTPUSysctls: what the kernel lacks is named by the shell that tried.
func judgeTPUSysctls(log string) judge.Verdict {
	return judge.Verdict{
		What: "sysctls that this kernel lacks in a pod are named by the document's own script",
		OK:   strings.Contains(log, "tcp_rto_min_us"), Why: log,
	}
}

// tpuSecond: the second replica asks for four more TPUs.
func (d Demo) tpuSecond(ctx context.Context) (judge.Verdict, error) {
	v := judge.Verdict{What: "the second replica waits for another TPU node"}
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
	if errors.Is(err, await.ErrLate) {
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
