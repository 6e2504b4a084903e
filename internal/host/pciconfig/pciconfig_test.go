// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pciconfig

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/model"
)

const nic = "0000:06:00.0"

// host is a file system with one function, whose configuration space is data.
func host(t testing.TB, data []byte) (root string, a model.PCIAddress) {
	t.Helper()
	a, err := model.ParsePCIAddress(nic)
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	file := filepath.Join(root, File(a))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return root, a
}

// space has MSI and then PCI Express with a value of Device Control.
func space(control uint16) []byte {
	c := make([]byte, configSpaceBytes)
	c[statusRegister] = statusHasList
	c[firstCapability] = 0x40
	c[0x40], c[0x41] = 0x05, 0x60
	c[0x60], c[0x60+deviceControl], c[0x60+deviceControl+1] = CapabilityPCIe, byte(control), byte(control>>8)
	return c
}

// Each setting changes its own bits, and all others stay.
func TestChangeDeviceControl(t *testing.T) {
	const others = 0x8a0f
	root, a := host(t, space(others|2<<maxReadShift))
	now := func() DeviceControl {
		t.Helper()
		c, err := ReadDeviceControl(os.DirFS(root), File(a))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := now(); c.MaxReadRequest() != 512 || c.RelaxedOrdering() || c.MaxPayload() != 128 || DeviceControl(0x2857).MaxPayload() != 512 {
		t.Fatalf("read %#x", c)
	}
	for size := MinReadRequest; size <= MaxReadRequest; size *= 2 {
		for _, on := range []bool{true, false} {
			err := ChangeDeviceControl(root, a, func(c DeviceControl) DeviceControl { return c.WithMaxReadRequest(size).WithRelaxedOrdering(on) })
			if c := now(); err != nil || c.MaxReadRequest() != size || c.RelaxedOrdering() != on || c&^(maxReadMask<<maxReadShift|relaxedOrdering) != others {
				t.Errorf("%d bytes, relaxed %v: %#x, %v", size, on, c, err)
			}
		}
	}
	data, err := os.ReadFile(filepath.Join(root, File(a)))
	if err != nil {
		t.Fatal(err)
	}
	want := space(uint16(now()))
	if string(data) != string(want) {
		t.Error("more than the register changed")
	}
}

func TestReadRefuses(t *testing.T) {
	root, a := host(t, space(0)[:headerBytes])
	if _, err := ReadDeviceControl(os.DirFS(root), File(a)); !errors.Is(err, ErrShort) {
		t.Errorf("a header alone: %v", err)
	}
	none := space(0)
	none[statusRegister] = 0
	root, a = host(t, none)
	unchanged := func(c DeviceControl) DeviceControl { return c }
	if err := ChangeDeviceControl(root, a, unchanged); !errors.Is(err, ErrNoPCIe) {
		t.Errorf("no capability: %v", err)
	}
	if err := ChangeDeviceControl(t.TempDir(), a, unchanged); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no function: %v", err)
	}
}

// A device decides what its configuration space says.
func FuzzSpace(f *testing.F) {
	f.Add(space(0x2810))
	f.Add(space(0)[:headerBytes+1])
	f.Add([]byte(strings.Repeat("\xff", configSpaceBytes)))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := Space(data)
		if at := s.Capability(CapabilityPCIe); at < 0 || at >= max(1, len(data)) {
			t.Errorf("capability at %d of %d bytes", at, len(data))
		}
		if at := s.Extended(ExtendedACS); at < 0 || at >= max(1, len(data)) {
			t.Errorf("extended capability at %d of %d bytes", at, len(data))
		}
		if len(data) > 0 { // a device without any is read as an error
			_, at, err := s.DeviceControl()
			if err == nil && at+2 > len(data) {
				t.Errorf("register at %d of %d bytes", at, len(data))
			}
		}
	})
}
