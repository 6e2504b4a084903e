// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// hostFiles prints each file, socket and link to one of the node, each setting of its
// network, its links, and the settings of its kernel that a HostPolicy can want. What
// containerd, the kubelet and the kernel change by themselves is left out, and directories
// that are empty.
const hostFiles = `find / \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/log \
	-o -path /var/lib/containerd -o -path /run/containerd -o -path /run/netns -o -path /var/lib/cni \
	-o -path /var/lib/kubelet/pods -o -path '/var/lib/kubelet/*_state' -o -path /var/lib/kubelet/image_manager -o -path /var/lib/kubelet/checkpoints \) -prune -o ! -type d -print 2>/dev/null
grep -r . /proc/sys/net/ipv4/conf /proc/sys/net/ipv6/conf /proc/sys/net/core 2>/dev/null | grep -v '/veth'
grep . /proc/sys/kernel/numa_balancing /proc/sys/vm/swappiness /proc/sys/vm/zone_reclaim_mode /proc/sys/net/ipv4/tcp_* 2>/dev/null
ip -o link | grep -v ' veth' | sed 's/^[0-9]*: //'
ip -o address | grep -v -e ' veth' -e 'scope link' | sed 's/^[0-9]*: //; s/valid_lft.*//'
exit 0`

// changing are kinds that come and go with pods, nodes and time, and the kinds that hold
// the same thing twice.
var changing = map[string]bool{
	"events": true, "events.events.k8s.io": true, "leases.coordination.k8s.io/kube-node-lease": true,
	"componentstatuses": true, "endpoints": true, "nodes": true, "csinodes.storage.k8s.io": true,
}

// ofNamespaces are the names of the account and the certificate that each namespace is
// given some time after it is made.
var ofNamespaces = map[string]bool{"default": true, "kube-root-ca.crt": true}

// state is what a cluster and its node have.
func (r *run) state(ctx context.Context) ([]string, error) {
	files, err := r.Shell(ctx, hostFiles)
	if err != nil {
		return nil, fmt.Errorf("read the node's files: %w", err)
	}
	state := strings.Split(strings.TrimSpace(files), "\n")
	objects, err := r.objects(ctx)
	if err != nil {
		return nil, err
	}
	node, err := r.Client.CoreV1().Nodes().Get(ctx, r.Node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	state = append(append(state, objects...), marks(node)...)
	slices.Sort(state)
	return state, nil
}

// settled is the state of a cluster that may be young: its controllers are still making
// their accounts then.
func (r *run) settled(ctx context.Context) (last []string, err error) {
	err = harness.WaitFor(ctx, settling, patience, func() (bool, error) {
		now, err := r.state(ctx)
		same := slices.Equal(now, last)
		last = now
		return same, err
	})
	return last, err
}

// objects names every object of the API server of which the administrator can list the
// kind.
func (r *run) objects(ctx context.Context) ([]string, error) {
	lists, err := discovery.ServerPreferredResources(r.Client.Discovery())
	if err != nil {
		return nil, fmt.Errorf("list the kinds of objects: %w", err)
	}
	var names []string
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, kind := range list.APIResources {
			resource := version.WithResource(kind.Name)
			if changing[resource.GroupResource().String()] || !slices.Contains(kind.Verbs, "list") {
				continue
			}
			objects, err := r.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // the kind has just gone
			}
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", resource.GroupResource(), err)
			}
			for _, object := range objects.Items {
				name := resource.GroupResource().String() + "/" + object.GetNamespace()
				if !changing[name] && (object.GetNamespace() == "" || !ofNamespaces[object.GetName()]) {
					names = append(names, name+"/"+object.GetName())
				}
			}
		}
	}
	return names, nil
}

// marks are a node's labels, annotations, taints and conditions.
func marks(node *corev1.Node) []string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(node.Labels)) {
		list = append(list, "label "+key+"="+node.Labels[key])
	}
	for _, key := range slices.Sorted(maps.Keys(node.Annotations)) {
		list = append(list, "annotation "+key+"="+node.Annotations[key])
	}
	for _, taint := range node.Spec.Taints {
		list = append(list, "taint "+taint.ToString())
	}
	for _, condition := range node.Status.Conditions {
		list = append(list, "condition "+string(condition.Type))
	}
	return list
}

// difference is what came (+) and went (-) between two states.
func difference(before, after []string) []string {
	had, has := map[string]bool{}, map[string]bool{}
	for _, line := range before {
		had[line] = true
	}
	var lines []string
	for _, line := range after {
		has[line] = true
		if !had[line] {
			lines = append(lines, "+ "+line)
		}
	}
	for _, line := range before {
		if !has[line] {
			lines = append(lines, "- "+line)
		}
	}
	return lines
}
