// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"path/filepath"
)

// NVIDIAVersion is the release of NVIDIA's DRA driver for GPUs that the module in
// build/nvidia pins.
const NVIDIAVersion = "v0.5.0"

// NVIDIADevicePluginVersion is the release of NVIDIA's device plugin that the module in
// build/nvidiadeviceplugin pins.
const NVIDIADevicePluginVersion = "v0.18.0"

// nvidiaDevicePluginModule is its module.
const nvidiaDevicePluginModule = "github.com/NVIDIA/k8s-device-plugin"

// nvidiaModule is the DRA driver's module: chart and scripts lie beside the source.
const nvidiaModule = "sigs.k8s.io/dra-driver-nvidia-gpu"

// nvmlEnv builds what opens NVIDIA's library, whose header calls much of itself deprecated.
var nvmlEnv = []string{"CGO_ENABLED=1", "CGO_CFLAGS=-O2 -Wno-deprecated-declarations"}

// NVIDIA is NVIDIA's DRA driver for GPUs, as its release has it.
type NVIDIA struct {
	// Plugin and CDIHook are programs, Prestart the script of its init container.
	Plugin, CDIHook, Prestart string
	// Chart is the folder of its Helm chart.
	Chart string
}

// NVIDIA builds NVIDIA's DRA driver for GPUs. Its programs are linked against the C
// library: the plugin opens NVIDIA's own library when it runs. The webhook beside them is
// for tests, which ask it what the driver takes.
func (b *Builder) NVIDIA(ctx context.Context) (NVIDIA, error) {
	dir, err := b.module(ctx, "nvidia", "NVIDIA's DRA driver "+NVIDIAVersion, goBuild{
		packages: []string{"tool"},
		ldflags:  "-s -w -X " + nvidiaModule + "/internal/info.version=" + NVIDIAVersion,
		env:      nvmlEnv,
	})
	if err != nil {
		return NVIDIA{}, err
	}
	source, err := b.moduleSource(ctx, "nvidia", nvidiaModule)
	return NVIDIA{
		Plugin: filepath.Join(dir, "gpu-kubelet-plugin"), CDIHook: filepath.Join(dir, "nvidia-cdi-hook"),
		Prestart: filepath.Join(source, "hack", "kubelet-plugin-prestart.sh"),
		Chart:    filepath.Join(source, "deployments", "helm", "dra-driver-nvidia-gpu"),
	}, err
}

// NVIDIADevicePlugin builds NVIDIA's device plugin, which gives GPUs away without claims.
func (b *Builder) NVIDIADevicePlugin(ctx context.Context) (string, error) {
	dir, err := b.module(ctx, "nvidiadeviceplugin", "NVIDIA's device plugin "+NVIDIADevicePluginVersion, goBuild{
		packages: []string{"tool"},
		ldflags:  "-s -w",
		env:      nvmlEnv,
	})
	return filepath.Join(dir, "nvidia-device-plugin"), err
}
