// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pciconfig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"

	"plumbline.dev/plumbline/internal/model"
)

const (
	deviceControl = 8 // PCI_EXP_DEVCTL

	relaxedOrdering = 1 << 4 // PCI_EXP_DEVCTL_RELAX_EN
	// Fields that say 128 << n bytes (PCI_EXP_DEVCTL_READRQ, PCI_EXP_DEVCTL_PAYLOAD).
	maxReadShift    = 12
	maxReadMask     = 7
	maxPayloadShift = 5
	maxPayloadMask  = 7
	minPayload      = 128
)

// The least and the most that a function may read at a time, in bytes.
const (
	MinReadRequest = 128
	MaxReadRequest = 4096
)

// DeviceControl is the register Device Control of a PCI Express function. All of its
// settings here are lost when the function is reset.
type DeviceControl uint16

// MaxReadRequest is how much the function reads at a time, in bytes.
func (c DeviceControl) MaxReadRequest() int {
	return MinReadRequest << (c >> maxReadShift & maxReadMask)
}

// WithMaxReadRequest is the register with another size, a power of two from
// MinReadRequest to MaxReadRequest.
func (c DeviceControl) WithMaxReadRequest(size int) DeviceControl {
	field := bits.Len(uint(size/MinReadRequest)) - 1
	return c&^(maxReadMask<<maxReadShift) | DeviceControl(field)<<maxReadShift
}

// MaxPayload is how much the function puts into a packet, and takes in one, in bytes.
func (c DeviceControl) MaxPayload() int { return minPayload << (c >> maxPayloadShift & maxPayloadMask) }

// RelaxedOrdering is whether the function's writes may pass each other.
func (c DeviceControl) RelaxedOrdering() bool { return c&relaxedOrdering != 0 }

// WithRelaxedOrdering is the register with it on or off.
func (c DeviceControl) WithRelaxedOrdering(on bool) DeviceControl {
	if on {
		return c | relaxedOrdering
	}
	return c &^ relaxedOrdering
}

// ErrNoPCIe says that a function has no Device Control.
var ErrNoPCIe = errors.New("no PCI Express capability in it")

// DeviceControl returns the register and where it lies.
func (s Space) DeviceControl() (c DeviceControl, at int, err error) {
	capability := s.Capability(CapabilityPCIe)
	if capability == 0 {
		return 0, 0, ErrNoPCIe
	}
	word, err := s.Word(capability + deviceControl)
	return DeviceControl(word), capability + deviceControl, err
}

// ReadDeviceControl reads the register in the file of a configuration space.
func ReadDeviceControl(files fs.FS, file string) (DeviceControl, error) {
	space, err := Read(files, file)
	if err != nil {
		return 0, err
	}
	c, _, err := space.DeviceControl()
	return c, err
}

// ChangeDeviceControl changes a function's register, where sys is the path of sysfs, and
// fails where the function did not take it.
func ChangeDeviceControl(sys string, a model.PCIAddress, change func(DeviceControl) DeviceControl) (err error) {
	f, err := os.OpenFile(filepath.Join(sys, File(a)), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	now, at, err := controlIn(f)
	if err != nil {
		return err
	}
	want := change(now)
	if want == now {
		return nil
	}
	if _, err := f.WriteAt(binary.LittleEndian.AppendUint16(nil, uint16(want)), int64(at)); err != nil {
		return err
	}
	took, _, err := controlIn(f)
	if err == nil && took != want {
		err = fmt.Errorf("the function made %#04x of Device Control %#04x", uint16(took), uint16(want))
	}
	return err
}

func controlIn(f *os.File) (c DeviceControl, at int, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, 0, err
	}
	space, err := read(f)
	if err != nil {
		return 0, 0, err
	}
	return space.DeviceControl()
}
