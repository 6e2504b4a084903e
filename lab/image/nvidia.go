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

// NVIDIAParts are what the image is packed of: files, a folder into which Debian's C
// library is unpacked, and the commands that the busybox has.
type NVIDIAParts struct {
	Plugin, CDIHook, Prestart string
	Bash, Busybox             string
	Libraries                 string
	Applets                   []string
}

// NVIDIAImage returns the image of NVIDIA's DRA driver, which has what their own has for
// it: a busybox, a bash and a C library (deployments/container/Dockerfile), and NVIDIAProc.
func NVIDIAImage(p NVIDIAParts) map[string]ociimage.Image {
	return map[string]ociimage.Image{NVIDIARepository + ":" + NVIDIATag: {
		Layer: ociimage.Layer{
			Programs: map[string]string{
				"/bin/busybox": p.Busybox, "/bin/bash": p.Bash,
				"/usr/bin/gpu-kubelet-plugin": p.Plugin, "/usr/bin/nvidia-cdi-hook": p.CDIHook,
				"/usr/bin/kubelet-plugin-prestart.sh": p.Prestart,
				"/lib64/ld-linux-x86-64.so.2":         filepath.Join(p.Libraries, "lib64", "ld-linux-x86-64.so.2"),
				"/lib/x86_64-linux-gnu/libc.so.6":     filepath.Join(p.Libraries, "lib", "x86_64-linux-gnu", "libc.so.6"),
			},
			Files: map[string]string{NVIDIAProc: nvidiaProc},
			Links: appletLinks(p.Applets),
			Dirs:  map[string]os.FileMode{"/root": 0o700, "/tmp": 0o777 | os.ModeSticky},
		},
		Architecture: Architecture,
	}}
}
