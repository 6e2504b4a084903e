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

// procDriver holds what NVIDIA's kernel driver shows in /proc/driver.
const procDriver = "/usr/share/plumblab/proc-driver"

// nvidiaMajor is that of NVIDIA's character devices, of which the last two belong to no
// GPU (Documentation/admin-guide/devices.txt).
const nvidiaMajor = 195

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

// On returns the files of a node that has the GPUs of a machine, and what makes the files
// of devices at boot, which no driver opens.
func (s NVIDIAStandIn) On(facts *machine.Facts, node string) (initramfs.Files, guest.Service, error) {
	table, err := nvml.Table(facts, node)
	if err != nil {
		return nil, guest.Service{}, err
	}
	files := initramfs.Files{
		NVIDIADriverRoot + "/lib64/" + nvml.LibraryName:              program(s.NVML),
		NVIDIADriverRoot + "/lib64/libcuda.so." + nvml.DriverVersion: program(s.CUDA),
		NVIDIADriverRoot + "/" + nvml.TablePath:                      {Content: table},
		NVIDIADriverRoot + "/" + nvml.EventsPath:                     {},
		NVIDIADriverRoot + "/bin/nvidia-smi":                         {Content: nvidiaSMI, Mode: 0o755},
		"/sbin/ldconfig":                                             program(s.Ldconfig),
		procDriver + "/nvidia/version": {Content: []byte(
			"NVRM version: plumbline's stand-in for NVIDIA's open kernel module  " + nvml.DriverVersion + "\n")},
	}
	commands := []string{
		"mountpoint -q /proc/driver || mount --bind " + procDriver + " /proc/driver",
		`file() { [ -c "$1" ] || mknod -m 666 "$@"; }`,
		fmt.Sprintf("file /dev/nvidiactl c %d 255", nvidiaMajor),
		fmt.Sprintf("file /dev/nvidia-modeset c %d 254", nvidiaMajor),
	}
	for _, gpu := range facts.ModelGPUs() {
		commands = append(commands, fmt.Sprintf("file /dev/nvidia%d c %d %d", gpu.Index, nvidiaMajor, gpu.Index))
		files[fmt.Sprintf("%s/nvidia/gpus/%s/information", procDriver, gpu.PCI)] = initramfs.File{Content: fmt.Appendf(nil,
			"Model: \t\t stand-in for %s\nBus Location: \t %s\nDevice Minor: \t %d\n", gpu.ProductName, gpu.PCI, gpu.Index)}
	}
	return files, guest.Service{
		Name: "nvidia-devices", Once: true, Argv: []string{"/bin/sh", "-ec", strings.Join(commands, "\n")},
	}, nil
}
