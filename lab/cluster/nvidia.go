// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/ociimage"
	"plumbline.dev/plumbline/lab/build"
	"plumbline.dev/plumbline/lab/controlplane"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/node"
	"plumbline.dev/plumbline/lab/nvml"
)

// nvidiaRelease is the installation's name for Helm, and its namespace.
const nvidiaRelease = "dra-driver-nvidia-gpu"

// NVIDIAArtifacts are NVIDIA's DRA driver for GPUs, and what stands in for the rest of
// NVIDIA's software on a node.
type NVIDIAArtifacts struct {
	// Chart is the folder of the driver's Helm chart.
	Chart string
	// OnNode is what a node has of it.
	OnNode node.NVIDIAStandIn
}

// NVIDIA adds to what All has made what serves GPUs with NVIDIA's DRA driver.
func (b *ArtifactBuilder) NVIDIA(ctx context.Context, artifacts *Artifacts) error {
	driver, err := b.builder.NVIDIA(ctx)
	if err != nil {
		return err
	}
	library, err := nvml.Build(ctx, b.cache, b.progress, b.source)
	if err != nil {
		return err
	}
	cuda, err := nvml.BuildCUDA(ctx, b.cache, b.progress)
	if err != nil {
		return err
	}
	bash, ldconfig, err := b.archive.NVIDIATools(ctx)
	if err != nil {
		return err
	}
	archive := b.cache.Path("nvidia.tar")
	artifacts.NVIDIA = NVIDIAArtifacts{
		Chart: driver.Chart, OnNode: node.NVIDIAStandIn{NVML: library, CUDA: cuda, Ldconfig: ldconfig},
	}
	artifacts.Images = append(artifacts.Images, archive)
	return ociimage.WriteDocker(archive, image.NVIDIAImage(image.NVIDIAParts{
		Plugin: driver.Plugin, CDIHook: driver.CDIHook, Prestart: driver.Prestart,
		Bash: bash, Busybox: artifacts.Busybox, Applets: artifacts.Applets, Libraries: artifacts.HostTools,
	}))
}

// installNVIDIA installs NVIDIA's driver by its own chart, as their documentation has it
// for GPUs alone, and waits until it runs.
func (c *Cluster) installNVIDIA(ctx context.Context, b *ArtifactBuilder, chart string, cp *controlplane.ControlPlane) error {
	task := b.progress.Start("NVIDIA's DRA driver " + build.NVIDIAVersion)
	values, err := yaml.Marshal(nvidiaValues(cp))
	if err != nil {
		return fmt.Errorf("write the values of NVIDIA's chart: %w", err)
	}
	_, err = c.Helm(ctx, values, "upgrade", "--install", nvidiaRelease, chart,
		"--namespace", nvidiaRelease, "--create-namespace", "--values", "-")
	if err == nil {
		err = c.rolledOut(ctx, nvidiaRelease, "daemonset/"+nvidiaRelease+"-kubelet-plugin")
	}
	if err != nil {
		task.Fail()
		return fmt.Errorf("install NVIDIA's DRA driver: %w", err)
	}
	task.Done("runs")
	return nil
}

// nvidiaValues are the values in which the lab differs from NVIDIA's own.
func nvidiaValues(cp *controlplane.ControlPlane) map[string]any {
	host, port := cp.GuestAddress()
	return map[string]any{
		// Their chart wants to hear twice that no device plugin serves the same GPUs.
		"gpuResourcesEnabledOverride": true,
		"resources":                   map[string]any{"computeDomains": map[string]any{"enabled": false}},
		"nvidiaDriverRoot":            node.NVIDIADriverRoot,
		"image":                       map[string]any{"repository": image.NVIDIARepository, "tag": image.NVIDIATag},
		"featureGates":                map[string]any{"TimeSlicingSettings": true, "NVMLDeviceHealthCheck": true},
		"kubeletPlugin": map[string]any{
			"nodeSelector": map[string]any{realLabel: "true"},
			"containers": map[string]any{"gpus": map[string]any{"env": []any{
				// The lab runs no service proxy.
				map[string]any{"name": "KUBERNETES_SERVICE_HOST", "value": host},
				map[string]any{"name": "KUBERNETES_SERVICE_PORT", "value": fmt.Sprint(port)},
			}}},
		},
	}
}
