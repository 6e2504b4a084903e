// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// policyLink is a NIC of the node that no pod has, and policy what it must be.
const (
	policyName = "rails"
	policyLink = "nic5"
	policy     = `apiVersion: plumbline.dev/v1alpha1
kind: HostPolicy
metadata: {name: ` + policyName + `}
spec:
  links:
  - interface: ` + policyLink + `
    mtu: 1400
    altName: rail5
    sysctls: {ipv4/conf/arp_ignore: "2"}
`
	// linkState says of the link what the policy sets; the kernel finds a link by any of
	// its names.
	linkState = `echo "mtu $(cat "/sys/class/net/$1/mtu") arp_ignore $(cat "/proc/sys/net/ipv4/conf/$1/arp_ignore")"
ip link show dev rail5 >/dev/null 2>&1 && echo "and called rail5"
exit 0`
)

var reports = schema.GroupVersionResource{Group: "plumbline.dev", Version: "v1alpha1", Resource: "hostreports"}

// follow has a policy followed, and taken back.
func (r *run) follow(ctx context.Context) error {
	before, err := r.Shell(ctx, linkState, policyLink)
	if err != nil {
		return err
	}
	if _, err := r.Kubectl.RunWithInput(ctx, policy, "apply", "-f", "-"); err != nil {
		return err
	}
	if err := r.awaitPolicies(ctx, "[map[applied:3 generation:1 name:"+policyName+"]]"); err != nil {
		return err
	}
	state, err := r.Shell(ctx, linkState, policyLink)
	if err != nil {
		return err
	}
	state = strings.Join(strings.Fields(state), " ")
	r.report.Finding(state == "mtu 1400 arp_ignore 2 and called rail5", "a HostPolicy", "is followed: %s", state)
	list, err := r.leaving()
	if err != nil {
		return err
	}
	out, err := r.typed(ctx, list[0])
	told := "there are HostPolicies (" + policyName + ")"
	r.report.Finding(err != nil && strings.Contains(out, told), "uninstalling beside a policy", "refused, and says %q", lineWith(out, told))
	if _, err := r.typed(ctx, rollback); err != nil {
		return err
	}
	if _, err := r.Kubectl.Run(ctx, "delete", "hostpolicy", policyName); err != nil {
		return err
	}
	if err := r.awaitPolicies(ctx, "[]"); err != nil {
		return err
	}
	after, err := r.Shell(ctx, linkState, policyLink)
	r.report.Finding(after == before, "without it", "the link is as before: %s", strings.TrimSpace(after))
	return err
}

// awaitPolicies waits until the node's report says so of policies.
func (r *run) awaitPolicies(ctx context.Context, want string) error {
	var said string
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		report, err := r.Dynamic.Resource(reports).Get(ctx, r.Node, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		policies, _, err := unstructured.NestedSlice(report.Object, "report", "policies")
		said = fmt.Sprint(policies)
		return said == want, err
	})
	if errors.Is(err, harness.ErrTimeout) {
		return fmt.Errorf("policies of node %s: %s: want %s: %w", r.Node, said, want, err)
	}
	return err
}
