// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/plural"
)

// overRDMA are modules of file systems and block devices over RDMA: the driver below must
// not go while one is in use.
var overRDMA = []string{"ib_iser", "ib_isert", "ib_srp", "ib_srpt", "ko2iblnd", "ksmbd", "nvme_rdma", "nvmet_rdma", "rnbd_client", "rpcrdma"}

// HeldNIC is a NIC that a pod holds, as it was on the host.
type HeldNIC struct {
	NIC model.NIC
	// By names the driver and the claim.
	By string
}

// ReloadHazards says what the host, and pods, would lose if the kernel module that drives
// NICs were unloaded; nothing where it is not loaded.
func ReloadHazards(h Host, module string, held []HeldNIC) (hazards []string, err error) {
	loaded, err := h.exists(path.Join("sys/module", module))
	if err != nil || !loaded {
		return nil, err
	}
	add := func(n model.NIC, folders []string, loss string) {
		drives, err := h.drives(module, folders)
		if err != nil {
			loss += fmt.Sprintf(", and nobody can tell whether module %s drives it: %v", module, err)
		}
		if drives || err != nil {
			hazards = append(hazards, subjectOf(n)+": "+loss)
		}
	}
	for _, n := range h.Machine.NICs {
		if n.Withheld != nil {
			add(n, h.devicesOf(n, true), *n.Withheld)
		}
	}
	for _, n := range held {
		add(n.NIC, h.devicesOf(n.NIC, false), "a pod holds it ("+n.By+")")
	}
	for _, user := range overRDMA {
		users, err := h.number(path.Join("sys/module", user, "refcnt"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if users > 0 {
			hazards = append(hazards, fmt.Sprintf("module %s has %s: storage over RDMA", user, plural.Count(users, "user", "users")))
		}
	}
	return hazards, nil
}

// devicesOf are the folders of the devices that a NIC hangs from: its PCI function, and the
// physical one of a virtual function, whose driver takes that along; without a PCI function
// the device that its interface names. The interface of a NIC that is not here may have
// another's name.
func (h Host) devicesOf(n model.NIC, here bool) (folders []string) {
	if n.PCI == nil {
		if here && n.Interface != nil {
			folders = append(folders, path.Join("sys/class/net", n.Interface.Name, "device"))
		}
		return folders
	}
	folders = append(folders, device(*n.PCI))
	if f := h.Machine.Function(*n.PCI); f != nil && f.PhysicalFunction != nil {
		folders = append(folders, device(*f.PhysicalFunction))
	}
	return folders
}

// drives says whether a module drives one of the devices, or one that a driver has made of
// them: virtio_pci makes a device of a PCI function, and virtio_net the interface of that.
func (h Host) drives(module string, folders []string) (bool, error) {
	if len(folders) == 0 {
		return false, errors.New("it is no PCI function")
	}
	for _, folder := range folders {
		entries, err := fs.ReadDir(h.Files, folder)
		if err != nil {
			return false, err
		}
		devices := []string{folder}
		for _, e := range entries {
			if e.IsDir() {
				devices = append(devices, path.Join(folder, e.Name()))
			}
		}
		for _, device := range devices {
			if of, err := h.moduleOf(device); err != nil || of == module {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// moduleOf is the module of a device's driver, which may have another name, as virtio_pci
// has of virtio-pci; the driver's, as modules spell it, where the kernel does not say, and ""
// where there is no driver.
func (h Host) moduleOf(device string) (string, error) {
	target, err := fs.ReadLink(h.Files, path.Join(device, "driver"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	bus, driver := path.Base(path.Dir(path.Dir(target))), path.Base(target)
	link, err := fs.ReadLink(h.Files, path.Join("sys/bus", bus, "drivers", driver, "module"))
	if errors.Is(err, fs.ErrNotExist) {
		return strings.ReplaceAll(driver, "-", "_"), nil
	}
	return path.Base(link), err
}
