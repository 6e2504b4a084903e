// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"plumbline.dev/plumbline/internal/plural"
)

// overRDMA are modules of file systems and block devices over RDMA: the driver below must
// not go while one is in use.
var overRDMA = []string{"ib_iser", "ib_isert", "ib_srp", "ib_srpt", "ko2iblnd", "ksmbd", "nvme_rdma", "nvmet_rdma", "rnbd_client", "rpcrdma"}

// ReloadHazards says what the host would lose if the kernel module that drives NICs were
// unloaded; nothing where it is not loaded.
func ReloadHazards(h Host, module string) (hazards []string, err error) {
	loaded, err := h.exists(path.Join("sys/module", module))
	if err != nil || !loaded {
		return nil, err
	}
	for _, n := range h.Machine.NICs {
		if n.PCI == nil || n.Withheld == nil {
			continue
		}
		if f := h.Machine.Function(*n.PCI); f != nil && f.Driver != nil && h.moduleOf(*f.Driver) == module {
			hazards = append(hazards, subjectOf(n)+": "+*n.Withheld)
		}
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

// moduleOf is the module of a driver of PCI functions, which may have another name, as
// virtio_pci has of virtio-pci; the driver's, as modules spell it, where the kernel does not
// say.
func (h Host) moduleOf(driver string) string {
	link, err := fs.ReadLink(h.Files, path.Join("sys/bus/pci/drivers", driver, "module"))
	if err != nil {
		return strings.ReplaceAll(driver, "-", "_")
	}
	return path.Base(link)
}
