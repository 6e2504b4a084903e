// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// The objects of pool.yaml, and the pods of limits.yaml.
const (
	poolName  = "rdma-net"
	className = "hca-shared-devices-a"
	testPod1  = "rdma-test-pod-1"
	testPod2  = "rdma-test-pod-2"
)

//go:embed pool.yaml
var pool string

//go:embed limits.yaml
var limits string

// extended has pods that ask for rdma/hca_shared_devices_a in their limits and for nothing
// else, as those of NVIDIA's article do: the class gives them a link with an address of a
// pool. The pool is deleted under one of them.
func (r *run) extended(ctx context.Context) error {
	if _, err := r.Kubectl.RunWithInput(ctx, pool, "apply", "-f", "-"); err != nil {
		return err
	}
	if err := r.awaitPool(ctx, "True"); err != nil {
		return err
	}
	if _, err := r.Kubectl.RunWithInput(ctx, limits, "apply", "-n", namespace, "-f", "-"); err != nil {
		return err
	}
	addresses := map[string]netip.Addr{}
	for _, pod := range []string{testPod1, testPod2} {
		if err := harness.WaitForReady(ctx, r.Client, namespace, pod, poll, patience); err != nil {
			return err
		}
		out, err := r.Kubectl.Shell(ctx, namespace, pod, "ip -o -4 addr show dev net1")
		if err != nil {
			return err
		}
		if addresses[pod], err = addressIn(out); err != nil {
			return fmt.Errorf("pod %s: %w", pod, err)
		}
	}
	subnet := netip.MustParsePrefix("192.168.112.0/24")
	first, second := addresses[testPod1], addresses[testPod2]
	r.report.Finding(first != second && subnet.Contains(first) && subnet.Contains(second), "pods with rdma/hca_shared_devices_a in their limits", "have %s and %s of the pool", first, second)
	out, err := r.Kubectl.Shell(ctx, namespace, testPod1, "ping -c 3 -W 5 -I net1 "+second.String())
	lines := strings.Split(strings.TrimSpace(out), "\n")
	r.report.Finding(err == nil, "  reach each other", "%s", strings.Join(lines[max(0, len(lines)-2):], "; "))
	if err := r.used(ctx, "2"); err != nil {
		return err
	}
	return r.withoutPool(ctx)
}

// withoutPool deletes the pool, which stays while pods have addresses.
func (r *run) withoutPool(ctx context.Context) error {
	if err := r.endPod(ctx, testPod2); err != nil {
		return err
	}
	if _, err := r.Kubectl.Run(ctx, "delete", "networkaddresspool", "--wait=false", poolName); err != nil {
		return err
	}
	if err := r.used(ctx, "1"); err != nil {
		return err
	}
	if err := r.endPod(ctx, testPod1); err != nil {
		return err
	}
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		left, err := r.Kubectl.Run(ctx, "get", "networkaddresspools,networkaddressblocks", "-o", "name")
		return strings.TrimSpace(left) == "", err
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	r.report.Finding(err == nil, "the pool is deleted", "it stayed while a pod had an address, and has gone with its blocks")
	return nil
}

func (r *run) endPod(ctx context.Context, pod string) error {
	if err := harness.DeletePod(ctx, r.Client, namespace, pod, 1); err != nil {
		return err
	}
	return harness.WaitFor(ctx, poll, patience, func() (bool, error) { return harness.PodGone(ctx, r.Client, namespace, pod) })
}

// awaitPool waits for the pool's condition Ready.
func (r *run) awaitPool(ctx context.Context, want string) error {
	return r.awaitField(ctx, `{.status.conditions[?(@.type=="Ready")].status}`, want)
}

// used waits until the pool says how many addresses are in use.
func (r *run) used(ctx context.Context, want string) error {
	err := r.awaitField(ctx, "{.status.used}", want)
	if err == nil {
		r.report.Finding(true, "the pool says", "%s in use", want)
	}
	return err
}

func (r *run) awaitField(ctx context.Context, field, want string) error {
	var got string
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		got, err = r.Kubectl.Run(ctx, "get", "networkaddresspool", poolName, "-o", "jsonpath="+field)
		return got == want, err
	})
	if errors.Is(err, harness.ErrTimeout) {
		whole, _ := r.Kubectl.Run(ctx, "get", "networkaddresspools,networkaddressblocks", "-o", "yaml")
		return fmt.Errorf("NetworkAddressPool %s: %s is %q, want %q: %w\n%s", poolName, field, got, want, err, whole)
	}
	return err
}

// addressIn is the address in a line of "ip -o addr".
func addressIn(line string) (netip.Addr, error) {
	fields := strings.Fields(line)
	for i, f := range fields {
		if f == "inet" && i+1 < len(fields) {
			p, err := netip.ParsePrefix(fields[i+1])
			return p.Addr(), err
		}
	}
	return netip.Addr{}, fmt.Errorf("%q: want an address", line)
}
