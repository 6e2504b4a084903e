// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
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

// driverReload tells what the host would lose with the drivers of its RDMA NICs. Of NICs
// that pods hold only plumbline-agent driver-preflight knows.
func driverReload(h Host, r *report) {
	var modules []string
	for _, n := range h.rdmaNICs() {
		module, err := h.moduleOf(device(*n.PCI))
		if err != nil {
			r.unknown(subjectOf(n), "/"+device(*n.PCI)+"/driver", err)
			continue
		}
		if module != "" && !slices.Contains(modules, module) {
			modules = append(modules, module)
		}
	}
	for _, module := range modules {
		source := "/" + path.Join("sys/module", module)
		hazards, err := ReloadHazards(h, module, nil)
		if err == nil && len(hazards) == 0 {
			// Programs that nobody may look at may have its devices open.
			_, err = h.programsOver(module)
			source = "/proc/*/fd"
		}
		switch {
		case err != nil:
			r.unknown("", source, fmt.Errorf("what hangs from module %s: %w", module, err))
		case len(hazards) > 0:
			r.ok("", source, "without module "+module+" the host would lose: "+strings.Join(hazards, "; "))
		default:
			r.ok("", source, "nothing of the host hangs from module "+module)
		}
	}
}

// programsOver are the programs that have a device of verbs or of management open (uverbsN,
// umadN) of an RDMA device that the module drives: the kernel keeps the module meanwhile, or
// takes the device from under them. With an error come those that may be seen.
func (h Host) programsOver(module string) (programs []string, err error) {
	devices := h.charDevicesOver(module)
	if len(devices) == 0 || !h.mayBeOpen("ib_uverbs", "infiniband_verbs") && !h.mayBeOpen("ib_umad", "infiniband_mad") {
		return nil, nil
	}
	processes, err := fs.ReadDir(h.Files, "proc")
	if err != nil {
		return nil, err
	}
	var hidden error
	for _, p := range processes {
		pid := p.Name()
		if pid[0] < '1' || pid[0] > '9' {
			continue
		}
		open, err := h.opened(pid, devices)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // that it has ended
			hidden = err
		}
		for _, file := range open {
			name, _ := h.read(path.Join("proc", pid, "comm"))
			programs = append(programs, fmt.Sprintf("process %s (%s) has %s of %s open", pid, printable.Text(name), file, devices[file]))
		}
	}
	return programs, hidden
}

// charDevicesOver are the character devices of the RDMA devices that a module drives, each
// with the name of its RDMA device.
func (h Host) charDevicesOver(module string) map[string]string {
	devices := map[string]string{}
	for _, n := range h.rdmaNICs() {
		if drives, err := h.drives(module, h.devicesOf(n, true)); err != nil || !drives {
			continue
		}
		for _, file := range n.RDMA.CharDevices {
			devices[file] = n.RDMA.Name
		}
	}
	return devices
}

// opened are those of the devices that a process has open, each once.
func (h Host) opened(pid string, devices map[string]string) (open []string, err error) {
	dir := path.Join("proc", pid, "fd")
	descriptors, err := fs.ReadDir(h.Files, dir)
	for _, fd := range descriptors {
		file, err := fs.ReadLink(h.Files, path.Join(dir, fd.Name()))
		if err == nil && devices[file] != "" && !slices.Contains(open, file) {
			open = append(open, file)
		}
	}
	return open, err
}

// mayBeOpen says whether a device of a module, which makes a class of them, may be open: it
// has more users than the modules that stand on it. Of one that is built in, and of one that
// cannot be read, nobody knows.
func (h Host) mayBeOpen(module, class string) bool {
	if there, err := h.exists(path.Join("sys/class", class)); err == nil && !there {
		return false
	}
	users, err := h.number(path.Join("sys/module", module, "refcnt"))
	if err != nil {
		return true
	}
	holders, err := fs.ReadDir(h.Files, path.Join("sys/module", module, "holders"))
	return err != nil || users > len(holders)
}

// ReloadHazards says what the host, and pods, would lose if the kernel module that drives
// NICs were unloaded; nothing where it is not loaded. Programs that nobody may look at are
// not in it.
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
	programs, _ := h.programsOver(module)
	hazards = append(hazards, programs...)
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
