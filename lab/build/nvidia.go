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

// nvidiaModule is its module: chart and scripts lie beside the source.
const nvidiaModule = "sigs.k8s.io/dra-driver-nvidia-gpu"

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
		// The header of NVIDIA's library calls much of itself deprecated.
		env: []string{"CGO_ENABLED=1", "CGO_CFLAGS=-O2 -Wno-deprecated-declarations"},
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
