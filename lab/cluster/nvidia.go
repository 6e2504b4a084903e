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
	"plumbline.dev/plumbline/lab/nvidia"
	"plumbline.dev/plumbline/lab/nvml"
)

// nvidiaRelease is the installation's name for Helm, and its namespace.
const nvidiaRelease = "dra-driver-nvidia-gpu"

// NVIDIAArtifacts are NVIDIA's DRA driver for GPUs, and what stands in for the rest of
// NVIDIA's software on a node.
type NVIDIAArtifacts struct {
	// Chart is the folder of the driver's Helm chart.
	Chart string
	// Driver is its kubelet plugin, and what a node has that it runs over.
	Driver nvidia.Driver
}

// nvidiaParts are the programs and libraries of NVIDIAArtifacts.
type nvidiaParts struct {
	driver build.NVIDIA
	// library and cuda stand in for NVIDIA's own.
	library, cuda string
}

// buildNVIDIA builds NVIDIA's DRA driver, and what stands in for NVIDIA's libraries.
func (b *ArtifactBuilder) buildNVIDIA(ctx context.Context) (p nvidiaParts, err error) {
	if p.driver, err = b.builder.NVIDIA(ctx); err == nil {
		p.library, err = nvml.Build(ctx, b.cache, b.progress, b.source)
	}
	if err == nil {
		p.cuda, err = nvml.BuildCUDA(ctx, b.cache, b.progress)
	}
	if err != nil {
		err = fmt.Errorf("build NVIDIA's DRA driver, which up and demo do without with --gpu %s: %w", GPUsSimulated, err)
	}
	return p, err
}

// packNVIDIA adds the image of NVIDIA's driver, and what is made of it, to the artifacts.
func (b *ArtifactBuilder) packNVIDIA(ctx context.Context, p nvidiaParts, artifacts *Artifacts) error {
	bash, ldconfig, err := b.archive.NVIDIATools(ctx)
	if err != nil {
		return err
	}
	archive := b.cache.Path("nvidia.tar")
	artifacts.NVIDIA = NVIDIAArtifacts{Chart: p.driver.Chart, Driver: nvidia.Driver{
		Plugin: p.driver.Plugin, StandIn: node.NVIDIAStandIn{NVML: p.library, CUDA: p.cuda, Ldconfig: ldconfig},
	}}
	artifacts.Images = append(artifacts.Images, archive)
	return ociimage.WriteDocker(archive, image.NVIDIAImage(image.NVIDIAParts{
		Plugin: p.driver.Plugin, CDIHook: p.driver.CDIHook, Prestart: p.driver.Prestart,
		Bash: bash, Busybox: artifacts.Busybox, Applets: artifacts.Applets, Libraries: artifacts.HostTools,
	}))
}

// nvidiaGates are the feature gates that are on where nobody has changed them.
var nvidiaGates = []string{"TimeSlicingSettings", "NVMLDeviceHealthCheck"}

// installNVIDIA installs NVIDIA's driver by its own chart, as their documentation has it
// for GPUs alone, and waits until it runs.
func (c *Cluster) installNVIDIA(ctx context.Context, b *ArtifactBuilder, chart string, cp *controlplane.ControlPlane) error {
	c.nvidiaChart = chart
	task := b.progress.Start("NVIDIA's DRA driver " + build.NVIDIAVersion)
	if err := c.helmNVIDIA(ctx, cp, nvidiaGates, ""); err != nil {
		task.Fail()
		return fmt.Errorf("install NVIDIA's DRA driver: %w", err)
	}
	task.Done("runs")
	return nil
}

// ConfigureNVIDIA has NVIDIA's driver run with other feature gates, or those of before where
// there are none, and share each GPU in so many parts, unless that is empty. Not all gates go
// together. Only who brought the cluster up may.
func (c *Cluster) ConfigureNVIDIA(ctx context.Context, gates []string, shares string) error {
	cp, err := c.find()
	if err != nil {
		return err
	}
	if len(gates) == 0 {
		gates = nvidiaGates
	}
	if err := c.helmNVIDIA(ctx, cp, gates, shares); err != nil {
		return fmt.Errorf("configure NVIDIA's DRA driver: %w", err)
	}
	return nil
}

func (c *Cluster) helmNVIDIA(ctx context.Context, cp *controlplane.ControlPlane, gates []string, shares string) error {
	values, err := yaml.Marshal(nvidiaValues(cp, gates, shares))
	if err != nil {
		return fmt.Errorf("write the values of NVIDIA's chart: %w", err)
	}
	_, err = c.Helm(ctx, values, "upgrade", "--install", nvidiaRelease, c.nvidiaChart,
		"--namespace", nvidiaRelease, "--create-namespace", "--values", "-")
	if err != nil {
		return err
	}
	return c.rolledOut(ctx, nvidiaRelease, "daemonset/"+nvidiaRelease+"-kubelet-plugin")
}

// nvidiaValues are the values in which the lab differs from NVIDIA's own.
func nvidiaValues(cp *controlplane.ControlPlane, gates []string, shares string) map[string]any {
	host, port := cp.GuestAddress()
	on := map[string]any{}
	for _, gate := range gates {
		on[gate] = true
	}
	return map[string]any{
		// Their chart wants to hear twice that no device plugin serves the same GPUs.
		"gpuResourcesEnabledOverride": true,
		"resources":                   map[string]any{"computeDomains": map[string]any{"enabled": false}},
		"nvidiaDriverRoot":            node.NVIDIADriverRoot,
		"image":                       map[string]any{"repository": image.NVIDIARepository, "tag": image.NVIDIATag},
		"featureGates":                on,
		"consumableShares":            shares,
		"kubeletPlugin": map[string]any{
			"nodeSelector": map[string]any{realLabel: "true"},
			"containers": map[string]any{"gpus": map[string]any{"env": []any{
				// The lab runs no service proxy.
				map[string]any{"name": "KUBERNETES_SERVICE_HOST", "value": host},
				map[string]any{"name": "KUBERNETES_SERVICE_PORT", "value": fmt.Sprint(port)},
				map[string]any{"name": "BASH_ENV", "value": image.NVIDIAProc},
			}}},
		},
	}
}
