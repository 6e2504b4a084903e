// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"plumbline.dev/plumbline/internal/machine"
)

// uninitialized marks a node that its cloud has not described yet
// (k8s.io/cloud-provider/api.TaintExternalCloudProvider).
const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// externalIP is where the API server reaches the node's kubelet: the lab
// forwards a port of this host's loopback.
const externalIP = "127.0.0.1"

// gpuResource is what the shipped class of GPUs answers to
// (deploy/deviceclasses.yaml): a node whose GPUs are published does not offer
// them a second time.
const gpuResource = "nvidia.com/gpu"

// nvidiaLabel is what Node Feature Discovery gives a node with a function of NVIDIA's,
// and what NVIDIA's chart looks for. Here the functions are others.
const nvidiaLabel = "feature.node.kubernetes.io/pci-10de.present"

// cloud is what a node's cloud controller and its vendors' device plugins, for which
// the lab stands in, write to the Node.
type cloud struct {
	node   string
	labels map[string]string
	// extended are whole devices by resource name.
	extended map[string]int
}

func cloudOf(facts *machine.Facts, o Options) cloud {
	extended := maps.Clone(facts.Kubernetes.ExtendedResources)
	if !o.NoInstall {
		delete(extended, gpuResource)
	}
	labels := maps.Clone(facts.Kubernetes.Labels)
	if o.GPUs == GPUsOfNVIDIA {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[nvidiaLabel] = "true"
	}
	return cloud{node: nodeName(facts), labels: labels, extended: extended}
}

// describe does what a cloud's controller does for a new node. The taint goes
// last: no pod comes before all is said.
func (c cloud) describe(ctx context.Context, client kubernetes.Interface) error {
	nodes := client.CoreV1().Nodes()
	external := corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: externalIP}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, c.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.Contains(node.Status.Addresses, external) {
			node.Status.Addresses = append(node.Status.Addresses, external)
		}
		extend(&node.Status, c.extended)
		_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("give node %s its external address and resources: %w", c.node, err)
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, c.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitialized })
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		maps.Copy(node.Labels, c.labels)
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("give node %s its labels and take taint %s away: %w", c.node, uninitialized, err)
	}
	return nil
}

// extend adds extended resources to what a node has.
func extend(status *corev1.NodeStatus, extended map[string]int) {
	for name, count := range extended {
		quantity := *resource.NewQuantity(int64(count), resource.DecimalSI)
		for _, list := range []*corev1.ResourceList{&status.Capacity, &status.Allocatable} {
			if *list == nil {
				*list = corev1.ResourceList{}
			}
			(*list)[corev1.ResourceName(name)] = quantity
		}
	}
}
