// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	_ "embed" // nvidia-smi
	"fmt"
	"strings"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/lab/nvml"
	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/initramfs"
)

// NVIDIADriverRoot is the folder with the programs and libraries of NVIDIA's kernel
// driver, where GKE's nodes have it.
const NVIDIADriverRoot = "/home/kubernetes/bin/nvidia"

// nvidiaMajor is that of NVIDIA's character devices, of which the last two belong to no
// GPU (Documentation/admin-guide/devices.txt). The kernel gives nvidia-caps one of those
// that are free; this is the last that it would give anybody.
const (
	nvidiaMajor     = 195
	nvidiaCapsMajor = 384
)

// nvidiaSMI stands in for what NVIDIA's DRA driver has nvidia-smi do.
//
//go:embed nvidia-smi.sh
var nvidiaSMI []byte

// NVIDIAStandIn is what stands in for NVIDIA's kernel driver and its libraries: programs
// and libraries of this host.
type NVIDIAStandIn struct {
	// NVML and CUDA are those that lab/nvml makes, Ldconfig is what NVIDIA's hooks run.
	NVML, CUDA, Ldconfig string
}

// DriverRoot returns the files below the root of NVIDIA's kernel driver, with a table of
// GPUs. The file of events is empty.
func (s NVIDIAStandIn) DriverRoot(table []byte) initramfs.Files {
	return initramfs.Files{
		"/lib64/" + nvml.LibraryName:              program(s.NVML),
		"/lib64/libcuda.so." + nvml.DriverVersion: program(s.CUDA),
		"/" + nvml.TablePath:                      {Content: table},
		"/" + nvml.EventsPath:                     {},
		"/bin/nvidia-smi":                         {Content: nvidiaSMI, Mode: 0o755},
	}
}

// On returns the files of a node that has the GPUs of a machine, and what makes the files
// of devices at boot, which no driver opens.
func (s NVIDIAStandIn) On(facts *machine.Facts, node string) (initramfs.Files, guest.Service, error) {
	table, err := nvml.Table(facts, node)
	if err != nil {
		return nil, guest.Service{}, err
	}
	files := initramfs.Files{
		"/sbin/ldconfig": program(s.Ldconfig),
	}
	for path, text := range nvml.Proc(facts, node) {
		files[NVIDIADriverRoot+"/"+nvml.ProcDriver+"/"+path] = initramfs.File{Content: text}
	}
	for path, file := range s.DriverRoot(table) {
		files[NVIDIADriverRoot+path] = file
	}
	commands := []string{
		// What a kernel driver shows in each /proc, a container's too: those who need it
		// there mount it over theirs.
		"mountpoint -q /proc/driver || mount --bind " + NVIDIADriverRoot + "/" + nvml.ProcDriver + " /proc/driver",
		fmt.Sprintf(`grep -q " nvidia-caps$" /proc/devices || {
	sed '/^Character devices:/a %d nvidia-caps' /proc/devices >%s
	mount --bind %[2]s /proc/devices
}`, nvidiaCapsMajor, NVIDIADriverRoot+"/proc/devices"),
		`file() { [ -c "$1" ] || mknod -m 666 "$@"; }`,
		fmt.Sprintf("file /dev/nvidiactl c %d 255", nvidiaMajor),
		fmt.Sprintf("file /dev/nvidia-modeset c %d 254", nvidiaMajor),
	}
	for _, gpu := range facts.ModelGPUs() {
		commands = append(commands, fmt.Sprintf("file /dev/nvidia%d c %d %d", gpu.Index, nvidiaMajor, gpu.Index))
	}
	return files, guest.Service{
		Name: "nvidia-devices", Once: true, Argv: []string{"/bin/sh", "-ec", strings.Join(commands, "\n")},
	}, nil
}
