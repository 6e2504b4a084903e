// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"plumbline.dev/plumbline/internal/model"
)

// NICName is the device name of a NIC: "pci-0000-91-00-0" by address, with
// "-p1" and so on for further interfaces of one function; the interface's own
// name where it is no PCI function, or "net-" and its base32 where that name is
// no DNS label.
func NICName(n model.NIC) string {
	switch {
	case n.PCI != nil:
		name := "pci-" + strings.NewReplacer(":", "-", ".", "-").Replace(n.PCI.String())
		if n.Port != nil {
			name += "-" + *n.Port
		}
		return name
	case n.Interface != nil:
		return labelOr("net-", n.Interface.Name)
	case n.RDMA != nil:
		return labelOr("rdma-", n.RDMA.Name)
	}
	return ""
}

// TwinName is the device name under which a NIC that is shared is offered whole as well.
func TwinName(n model.NIC) string { return NICName(n) + twinSuffix }

// TwinID is the device that is the whole of a NIC that is published as another.
func TwinID(of model.DeviceID) model.DeviceID {
	return model.DeviceID{Driver: of.Driver, Name: of.Name + twinSuffix}
}

const twinSuffix = "-whole"

// IDOfNIC is the device that a NIC is published as; for one that was read from a slice,
// the device of that slice, which may be another driver's.
func IDOfNIC(n model.NIC) model.DeviceID {
	if n.Published != nil {
		return *n.Published
	}
	return model.DeviceID{Driver: DriverNet, Name: NICName(n)}
}

// IDOfGPU is the device that a GPU is published as.
func IDOfGPU(g model.GPU) model.DeviceID {
	if g.Published != nil {
		return *g.Published
	}
	return model.DeviceID{Driver: DriverGPU, Name: GPUName(g)}
}

// GPUName is the device name of a GPU, such as "gpu-0".
func GPUName(g model.GPU) string { return gpuPrefix + strconv.Itoa(g.Index) }

const gpuPrefix = "gpu-"

// gpuIndex is the n of "gpu-<n>", and of no other name: the vendor's driver names a MIG
// device "gpu-0-mig-...".
func gpuIndex(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, gpuPrefix)
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0 && strconv.Itoa(n) == digits
}

// FindNIC returns the NIC a device name stands for, or nil. It may be the name of its twin.
func FindNIC(m *model.Machine, device string) *model.NIC {
	base, isTwin := strings.CutSuffix(device, twinSuffix)
	var twin *model.NIC
	for i := range m.NICs {
		switch NICName(m.NICs[i]) {
		case device:
			return &m.NICs[i]
		case base:
			twin = &m.NICs[i]
		}
	}
	if !isTwin {
		return nil
	}
	return twin
}

// FindGPU returns the GPU a device name stands for, or nil.
func FindGPU(m *model.Machine, device string) *model.GPU {
	for i := range m.GPUs {
		if GPUName(m.GPUs[i]) == device {
			return &m.GPUs[i]
		}
	}
	return nil
}

// labelOr returns name where it is a DNS label that cannot be taken for a
// generated one, else prefix and the lower-case base32 of name; of a name too
// long for that, the base32 of its hash: an RDMA device's may have 63 bytes
// (include/rdma/ib_verbs.h, IB_DEVICE_NAME_MAX).
func labelOr(prefix, name string) string {
	generated := strings.HasPrefix(name, prefix) || strings.HasPrefix(name, "pci-")
	if len(validation.IsDNS1123Label(name)) == 0 && !generated {
		return name
	}
	label := prefix + encode([]byte(name))
	if len(label) > validation.DNS1123LabelMaxLength {
		sum := sha256.Sum256([]byte(name))
		label = prefix + encode(sum[:])
	}
	return label
}

func encode(b []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}
