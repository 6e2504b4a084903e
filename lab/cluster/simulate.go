// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/lab/controlplane"
)

// Simulated are nodes that only publish slices: nothing ever runs there.
type Simulated struct {
	// Machine is a shipped machine's name or a machine file's path.
	Machine string
	// Count is how many nodes.
	Count int
}

// ParseSimulated reads "NAME=COUNT,…".
func ParseSimulated(text string) ([]Simulated, error) {
	var list []Simulated
	for item := range strings.SplitSeq(text, ",") {
		if item == "" {
			continue
		}
		name, countText, found := strings.Cut(item, "=")
		count, err := strconv.Atoi(countText)
		if !found || name == "" || err != nil || count < 1 || count > 5000 {
			return nil, fmt.Errorf("simulate %q: want NAME=COUNT with a count from 1 to 5000", item)
		}
		list = append(list, Simulated{Machine: name, Count: count})
	}
	return list, nil
}

// NodeNames are the names of the simulated nodes of a machine called name.
func (s Simulated) NodeNames(name string) []string {
	var names []string
	for i := range s.Count {
		names = append(names, fmt.Sprintf("%s-sim-%d", name, i+1))
	}
	return names
}

// simulate adds the nodes and publishes their slices, as
// "plumbline machine slices" prints them.
func (c *Cluster) simulate(ctx context.Context, b *ArtifactBuilder, cp *controlplane.ControlPlane, list []Simulated) error {
	client, err := clientOf(cp)
	if err != nil {
		return err
	}
	for _, s := range list {
		facts, err := machine.OpenFacts(s.Machine)
		if err != nil {
			return fmt.Errorf("simulate nodes: %w", err)
		}
		task := b.progress.Start(fmt.Sprintf("%d simulated %s", s.Count, facts.Name))
		for _, name := range s.NodeNames(facts.Name) {
			if err := c.simulateOne(ctx, b, client, s.Machine, facts, name); err != nil {
				task.Fail()
				return fmt.Errorf("simulate node %s: %w", name, err)
			}
		}
		task.Done("published")
	}
	return nil
}

func (c *Cluster) simulateOne(ctx context.Context, b *ArtifactBuilder, client kubernetes.Interface, file string, facts *machine.Facts, name string) error {
	if err := createNode(ctx, client, facts, name); err != nil {
		return err
	}
	slices := exec.CommandContext(ctx, filepath.Join(b.cache.Path("bin"), "plumbline"), "machine", "slices", file, "--simulated", "--node-name", name)
	slices.Stderr = os.Stderr
	manifests, err := slices.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", slices, err)
	}
	return c.pipe(ctx, manifests, "apply", "--server-side", "--force-conflicts", "-f", "-")
}

// createNode makes a node that the scheduler takes for real.
func createNode(ctx context.Context, client kubernetes.Interface, facts *machine.Facts, name string) error {
	labels := map[string]string{
		corev1.LabelHostname:           name,
		corev1.LabelOSStable:           "linux",
		corev1.LabelArchStable:         goArch(facts.Arch),
		corev1.LabelInstanceTypeStable: facts.Name,
		simulatedLabel:                 "true",
	}
	simulated := cloudOf(facts, Options{})
	maps.Copy(labels, simulated.labels)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	capacity := capacityOf(facts)
	now := metav1.Now()
	status := corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated",
			Message:           "publishes slices; nothing runs here",
			LastHeartbeatTime: now, LastTransitionTime: now,
		}},
	}
	extend(&status, simulated.extended)
	// The controllers have taken notice of the node by now.
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Status = status
		_, err = client.CoreV1().Nodes().UpdateStatus(ctx, current, metav1.UpdateOptions{})
		return err
	})
}

// simulatedLabel marks what stands in for real hardware.
const simulatedLabel = "plumbline.dev/simulated"

// simulatedMemory is what a simulated node has: machine files seldom say.
const simulatedMemory = "1Ti"

func capacityOf(facts *machine.Facts) corev1.ResourceList {
	cpus := int64(64)
	if facts.CPU.CPUs != nil {
		cpus = int64(*facts.CPU.CPUs)
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(cpus, resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse(simulatedMemory),
		corev1.ResourcePods:   *resource.NewQuantity(110, resource.DecimalSI),
	}
}

// goArch translates uname's word for an architecture into Kubernetes'.
func goArch(uname string) string {
	switch uname {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return uname
}
