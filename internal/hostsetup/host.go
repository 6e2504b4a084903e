// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostsetup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/host/pciconfig"
	"plumbline.dev/plumbline/internal/host/sriov"
	"plumbline.dev/plumbline/internal/model"
)

// Host is where the host's files are.
type Host struct {
	// Sys is the path of its /sys, ProcSys of its /proc/sys.
	Sys, ProcSys string
}

// Read returns a value as Change has it: of a PCI function, or of the host where function
// is empty.
func (h Host) Read(function, field string) (string, error) {
	if function != "" {
		return h.readFunction(function, field)
	}
	if module, ok := strings.CutPrefix(field, FieldModule); ok {
		there, err := h.loaded(module)
		if err != nil {
			return "", err
		}
		if there {
			return Present, nil
		}
		return Absent, nil
	}
	text, err := os.ReadFile(h.sysctlFile(field))
	return strings.TrimSpace(string(text)), err
}

// loaded says whether a module is there, and has been initialised: others that need it
// wait until then.
func (h Host) loaded(module string) (bool, error) {
	dir := filepath.Join(h.Sys, "module", module)
	if _, err := os.Stat(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	state, err := os.ReadFile(filepath.Join(dir, "initstate"))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // part of the kernel
	}
	return strings.TrimSpace(string(state)) == "live", err
}

func (h Host) sysctlFile(field string) string {
	return filepath.Join(h.ProcSys, filepath.FromSlash(strings.ReplaceAll(strings.TrimPrefix(field, FieldSysctl), ".", "/")))
}

func (h Host) readFunction(function, field string) (string, error) {
	address, err := model.ParsePCIAddress(function)
	if err != nil {
		return "", err
	}
	if field == FieldNumVFs {
		counts, err := sriov.Read(h.Sys, address)
		return strconv.Itoa(counts.Now), err
	}
	control, err := pciconfig.ReadDeviceControl(os.DirFS(h.Sys), pciconfig.File(address))
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Join(h.Sys, pciconfig.File(address)), err)
	}
	if field == FieldMaxReadRequest {
		return strconv.Itoa(control.MaxReadRequest()), nil
	}
	return strconv.FormatBool(control.RelaxedOrdering()), nil
}

// write makes a valid change of anything but a module.
func (h Host) write(c Change) error {
	if c.Function == "" {
		if err := os.WriteFile(h.sysctlFile(c.Field), []byte(c.Value), 0); err != nil {
			return err
		}
		return h.took(c)
	}
	address, err := model.ParsePCIAddress(c.Function)
	if err != nil {
		return err
	}
	if c.Field == FieldNumVFs {
		count, _ := strconv.Atoi(c.Value) // validated
		return h.setVFs(address, count)
	}
	err = pciconfig.ChangeDeviceControl(h.Sys, address, func(control pciconfig.DeviceControl) pciconfig.DeviceControl {
		if c.Field == FieldRelaxedOrdering {
			return control.WithRelaxedOrdering(c.Value == "true")
		}
		size, _ := strconv.Atoi(c.Value) // validated
		return control.WithMaxReadRequest(size)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(h.Sys, pciconfig.File(address)), err)
	}
	return nil
}

// setVFs sets how many virtual functions a function has. The agent has looked at claims;
// that no program and no pod has got one since is looked at here, right before all go.
func (h Host) setVFs(address model.PCIAddress, count int) error {
	counts, err := sriov.Read(h.Sys, address)
	if err != nil || counts.Now == count {
		return err
	}
	used, err := sriov.Used(h.Sys, address)
	if err != nil {
		return fmt.Errorf("who uses virtual functions of %s: %w", address, err)
	}
	if used != "" {
		return fmt.Errorf("another number of virtual functions takes all that there are away, and %s", used)
	}
	return sriov.SetCount(h.Sys, address, count)
}

// took fails where the kernel made another value of a change.
func (h Host) took(c Change) error {
	got, err := h.Read(c.Function, c.Field)
	if err == nil && got != c.Value {
		err = fmt.Errorf("the kernel made %q of it", got)
	}
	return err
}
