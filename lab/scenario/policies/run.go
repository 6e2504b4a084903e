// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// patience is how long anything may take: the node's processors may be emulated, and an
// agent looks every minute.
const (
	patience = 4 * time.Minute
	poll     = 500 * time.Millisecond
)

// namespace has plumbline.
const namespace = "plumbline-system"

// policyName is the policy's name.
const policyName = "plumblab-policies"

// policy wants the module that prepare unloads, and settings that are others.
const policy = `apiVersion: plumbline.dev/v1alpha1
kind: HostPolicy
metadata: {name: ` + policyName + `}
spec:
  dryRun: %v
  modules: [rdma_ucm]
  sysctls: {kernel.numa_balancing: "0", vm.zone_reclaim_mode: "1", net.core.rmem_max: "16777216"}
`

const (
	// prepare unloads a module with what came along with it, as a host is that nobody has
	// made ready for RDMA. The paths are those of kmod: busybox's shell has its own.
	prepare = `/usr/sbin/depmod && /usr/sbin/modprobe -r rdma_ucm; echo 1 >/proc/sys/kernel/numa_balancing; echo 0 >/proc/sys/vm/zone_reclaim_mode`
	// state is what the policy changes.
	state = `for m in rdma_ucm rdma_cm iw_cm ib_cm ib_uverbs; do test -e /sys/module/$m && echo "$m"; done
cat /proc/sys/kernel/numa_balancing /proc/sys/vm/zone_reclaim_mode /proc/sys/net/core/rmem_max`
)

// Config is what a run is to know.
type Config struct {
	harness.Cluster

	Kubectl scenario.Kubectl
	// Configure gives the installation other values of its chart, as YAML.
	Configure func(ctx context.Context, values []byte) error
	// DriverImage is an image on the node that loads the module of DriverModule, which no
	// NIC there has.
	DriverImage, DriverModule string
}

type run struct {
	Config
	report harness.Report
}

// Run goes through all steps, prints what it finds, and leaves nothing of its own.
func Run(ctx context.Context, c Config) error {
	r := &run{Config: c, report: harness.Report{Scenario: "policies", Out: c.Out}}
	return r.report.Verdict(harness.Run(ctx, patience, r.cleanUp, r.steps))
}

func (r *run) cleanUp(ctx context.Context) error {
	return errors.Join(r.withoutDriver(ctx), r.withoutPolicy(ctx))
}

func (r *run) withoutPolicy(ctx context.Context) error {
	if _, err := r.Kubectl.Run(ctx, "delete", "hostpolicy", "--ignore-not-found", policyName); err != nil {
		return err
	}
	if err := r.awaitReport(ctx, "policies", ""); err != nil {
		return err
	}
	_, err := r.Shell(ctx, "/usr/sbin/depmod && /usr/sbin/modprobe rdma_ucm")
	return err
}

func (r *run) steps(ctx context.Context) error {
	if _, err := r.Shell(ctx, prepare); err != nil {
		return err
	}
	before, err := r.state(ctx)
	if err != nil {
		return err
	}
	r.report.Finding(!strings.Contains(before, "rdma_"), "the host", "has %s", before)
	for _, step := range []func(context.Context, string) error{r.dryRun, r.follow, r.takenBack} {
		if err := step(ctx, before); err != nil {
			return err
		}
	}
	return r.nicDriver(ctx)
}

// dryRun has the agent say what would change, and nothing changed.
func (r *run) dryRun(ctx context.Context, before string) error {
	if err := r.apply(ctx, true); err != nil {
		return err
	}
	if err := r.awaitReport(ctx, "policies[*].open[*].state", "planned planned planned planned"); err != nil {
		return err
	}
	after, err := r.state(ctx)
	r.report.Finding(after == before, "dryRun", "says what would change, and changes nothing")
	return err
}

// follow has the policy followed, and what is undone by hand while no agent looks done
// again.
func (r *run) follow(ctx context.Context, _ string) error {
	if err := r.apply(ctx, false); err != nil {
		return err
	}
	if err := r.followed(ctx, "a HostPolicy"); err != nil {
		return err
	}
	if _, err := r.Shell(ctx, "/usr/sbin/modprobe -r rdma_ucm; echo 1 >/proc/sys/kernel/numa_balancing"); err != nil {
		return err
	}
	if _, err := r.Kubectl.Run(ctx, "delete", "pod", "--namespace", namespace, "--selector", "app.kubernetes.io/component=agent"); err != nil {
		return err
	}
	return r.followed(ctx, "what was undone by hand")
}

// followed waits until the host is as the policy wants.
func (r *run) followed(ctx context.Context, what string) error {
	began := time.Now()
	const want = "rdma_ucm rdma_cm iw_cm ib_cm ib_uverbs 0 1 16777216"
	if err := r.awaitState(ctx, want); err != nil {
		return err
	}
	took := time.Since(began).Round(time.Second)
	if err := r.awaitReport(ctx, "policies[*].applied", "4"); err != nil {
		return err
	}
	err := r.awaitIdle(ctx)
	r.report.Finding(err == nil, what, "%s after %s, and plumbline-host-setup has gone", want, took)
	return err
}

// takenBack has the policy go.
func (r *run) takenBack(ctx context.Context, before string) error {
	if _, err := r.Kubectl.Run(ctx, "delete", "hostpolicy", policyName); err != nil {
		return err
	}
	if err := r.awaitReport(ctx, "policies", ""); err != nil {
		return err
	}
	// What nobody wants any more is told until it is put back.
	after, err := r.state(ctx)
	if err != nil {
		return err
	}
	r.report.Finding(after == before, "without it", "the host has %s, as before", after)
	return r.awaitIdle(ctx)
}

// awaitState waits until the host is so.
func (r *run) awaitState(ctx context.Context, want string) error {
	var now string
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		now, err = r.state(ctx)
		return now == want, err
	})
	if errors.Is(err, harness.ErrTimeout) {
		whole, _ := r.Kubectl.Run(ctx, "get", "hostreport", r.Node, "-o", "jsonpath={.report.policies}")
		return fmt.Errorf("node %s has %q, want %q: %w; policies: %s", r.Node, now, want, err, whole)
	}
	return err
}

func (r *run) apply(ctx context.Context, dryRun bool) error {
	_, err := r.Kubectl.RunWithInput(ctx, fmt.Sprintf(policy, dryRun), "apply", "-f", "-")
	return err
}

// state is what the policy changes, in one line.
func (r *run) state(ctx context.Context) (string, error) {
	out, err := r.Shell(ctx, state)
	return strings.Join(strings.Fields(out), " "), err
}

// awaitReport waits until a field of the node's report is as wanted.
func (r *run) awaitReport(ctx context.Context, field, want string) error {
	var said string
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		said, err = r.Kubectl.Run(ctx, "get", "hostreport", r.Node, "-o", "jsonpath={.report."+field+"}")
		return said == want, err
	})
	if errors.Is(err, harness.ErrTimeout) {
		whole, _ := r.Kubectl.Run(ctx, "get", "hostreport", r.Node, "-o", "jsonpath={.report.policies}")
		return fmt.Errorf("HostReport %s: %s is %q, want %q: %w; policies: %s", r.Node, field, said, want, err, whole)
	}
	return err
}

// awaitIdle waits until plumbline-host-setup runs no more, and has no node to.
func (r *run) awaitIdle(ctx context.Context) error {
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		pods, err := r.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=host-setup"})
		if err != nil || len(pods.Items) > 0 {
			return false, err
		}
		nodes, err := r.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "plumbline.dev/host-setup"})
		return err == nil && len(nodes.Items) == 0, err
	})
	if errors.Is(err, harness.ErrTimeout) {
		return fmt.Errorf("plumbline-host-setup still runs, or node %s has its label: %w", r.Node, err)
	}
	return err
}
