// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	_ "embed" // nvidia-proc.sh
	"os"
	"path/filepath"

	"plumbline.dev/plumbline/internal/ociimage"
)

// NVIDIARepository and NVIDIATag name NVIDIA's DRA driver for GPUs, as packed here.
const (
	NVIDIARepository = "plumbline.dev/lab/dra-driver-nvidia-gpu"
	NVIDIATag        = "lab"
)

// NVIDIAProc is a file of the image that bash is to read before the driver begins.
const NVIDIAProc = "/usr/share/plumblab/nvidia-proc.sh"

//go:embed nvidia-proc.sh
var nvidiaProc string

// NVIDIADevicePlugin is NVIDIA's device plugin.
const NVIDIADevicePlugin = "plumbline.dev/lab/k8s-device-plugin:latest"

// NVIDIAParts are what the image is packed of: files, a folder into which Debian's C
// library is unpacked, and the commands that the busybox has.
type NVIDIAParts struct {
	Plugin, CDIHook, Prestart string
	Bash, Busybox             string
	Libraries                 string
	Applets                   []string
}

// Where Debian has its C library, and where images have it.
const (
	loader = "/lib64/ld-linux-x86-64.so.2"
	libc   = "/lib/x86_64-linux-gnu/libc.so.6"
)

// NVIDIAImage returns the image of NVIDIA's DRA driver, which has what their own has for
// it: a busybox, a bash and a C library (deployments/container/Dockerfile), and NVIDIAProc.
func NVIDIAImage(p NVIDIAParts) map[string]ociimage.Image {
	return map[string]ociimage.Image{NVIDIARepository + ":" + NVIDIATag: {
		Layer: ociimage.Layer{
			Programs: map[string]string{
				"/bin/busybox": p.Busybox, "/bin/bash": p.Bash,
				"/usr/bin/gpu-kubelet-plugin": p.Plugin, "/usr/bin/nvidia-cdi-hook": p.CDIHook,
				"/usr/bin/kubelet-plugin-prestart.sh": p.Prestart,
				loader:                                filepath.Join(p.Libraries, loader), libc: filepath.Join(p.Libraries, libc),
			},
			Files: map[string]string{NVIDIAProc: nvidiaProc},
			Links: appletLinks(p.Applets),
			Dirs:  map[string]os.FileMode{"/root": 0o700, "/tmp": 0o777 | os.ModeSticky},
		},
		Architecture: Architecture,
	}}
}

// NVIDIADevicePluginImage returns the image of NVIDIA's device plugin, by its program and
// the folder into which Debian's C library is unpacked.
func NVIDIADevicePluginImage(program, libraries string) map[string]ociimage.Image {
	const inside = "/usr/bin/nvidia-device-plugin"
	return map[string]ociimage.Image{NVIDIADevicePlugin: {
		Layer: ociimage.Layer{
			Programs: map[string]string{
				inside: program, loader: filepath.Join(libraries, loader), libc: filepath.Join(libraries, libc),
			},
			Dirs: map[string]os.FileMode{"/tmp": 0o777 | os.ModeSticky},
		},
		Architecture: Architecture,
		Command:      []string{inside},
	}}
}
