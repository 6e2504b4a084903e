// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/nodeslices"
	"plumbline.dev/plumbline/lab/controlplane"
	"plumbline.dev/plumbline/lab/nvidia"
	"plumbline.dev/plumbline/lab/nvml"
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

// simulate adds the nodes and publishes their slices.
func (c *Cluster) simulate(ctx context.Context, b *ArtifactBuilder, cp *controlplane.ControlPlane, artifacts *Artifacts, o Options) error {
	client, err := clientOf(cp)
	if err != nil {
		return err
	}
	simulator := Simulator{Client: client, Kubeconfig: cp.Kubeconfig(), Log: func(node string) string { return controlplane.LogPath(c.dir, "gpu-kubelet-plugin-"+node) }}
	if o.GPUs == GPUsOfNVIDIA {
		simulator.NVIDIA = &artifacts.NVIDIA.Driver
	}
	for _, s := range o.Simulate {
		file, err := machine.Open(s.Machine)
		if err != nil {
			return fmt.Errorf("simulate nodes: %w", err)
		}
		task := b.progress.Start(fmt.Sprintf("%d simulated %s", s.Count, file.Name))
		for _, name := range s.NodeNames(file.Name) {
			if err := simulator.Add(ctx, file, name); err != nil {
				task.Fail()
				return fmt.Errorf("simulate node %s: %w", name, err)
			}
		}
		task.Done("published")
	}
	return nil
}

// Simulator adds nodes that only publish slices.
type Simulator struct {
	Client kubernetes.Interface
	// NVIDIA publishes the GPUs by NVIDIA; nil leaves them to plumbline.
	NVIDIA *nvidia.Driver
	// Kubeconfig is what NVIDIA's driver reaches the API server with.
	Kubeconfig string
	// Log is the file for what it says of a node.
	Log func(node string) string
}

// Add makes a node of a machine file, with the slices that "plumbline machine slices" prints:
// those of the GPUs too, unless NVIDIA's driver publishes them.
func (s Simulator) Add(ctx context.Context, file *machine.File, name string) error {
	if err := createNode(ctx, s.Client, file.Facts, name); err != nil {
		return err
	}
	published, problems, err := nodeslices.OfFile(ctx, file, nodeslices.Options{Node: name, Simulated: true})
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s: %s", file.Source, problems[0])
	}
	for _, slice := range published {
		if s.NVIDIA != nil && slice.Spec.Driver == slicecodec.DriverGPU {
			continue
		}
		if err := s.apply(ctx, slice); err != nil {
			return fmt.Errorf("publish %s: %w", slice.Name, err)
		}
	}
	if s.NVIDIA == nil || len(file.Facts.ModelGPUs()) == 0 {
		return nil
	}
	return s.publishGPUs(ctx, file, name)
}

// apply writes a slice, whatever is there.
func (s Simulator) apply(ctx context.Context, slice resourceapi.ResourceSlice) error {
	text, err := json.Marshal(slice)
	if err != nil {
		return err
	}
	_, err = s.Client.ResourceV1().ResourceSlices().Patch(ctx, slice.Name, types.ApplyPatchType, text,
		metav1.PatchOptions{FieldManager: "plumblab", Force: ptr.To(true)})
	return err
}

// publishGPUs has NVIDIA's driver publish them.
func (s Simulator) publishGPUs(ctx context.Context, file *machine.File, name string) error {
	table, err := nvml.Table(file.Facts, name)
	if err != nil {
		return err
	}
	log, err := os.Create(s.Log(name))
	if err != nil {
		return err
	}
	_, err = s.NVIDIA.Publish(ctx, s.Client, nvidia.Node{Name: name, Table: table, Sys: file.Tree, Kubeconfig: s.Kubeconfig, Log: log})
	if err != nil {
		err = fmt.Errorf("%w (its log: %s)", err, log.Name())
	}
	return errors.Join(err, log.Close())
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
