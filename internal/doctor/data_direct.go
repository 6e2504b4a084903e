// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/host/pciconfig"
	"plumbline.dev/plumbline/internal/model"
)

var errNoNIC = errors.New("no NIC has its keyword " + pciconfig.DataDirectKeyword + " of the vital product data")

func (h Host) dataDirects() []model.PCIFunction {
	return h.functions(func(f model.PCIFunction) bool { return pciconfig.IsDataDirect(&f) })
}

// dataDirect tells whose each Data Direct function is.
func dataDirect(h Host, r *report) {
	for _, f := range h.dataDirects() {
		subject := h.subject(f.Address)
		nics, file, err := h.nicsOf(f.Address)
		switch {
		case errors.Is(err, errNoNIC):
			r.wrong(subject, "/"+file, err.Error(), "the NIC that it belongs to", "lspci -d 15b3: is the NIC there? The kernel's log says why not")
		case err != nil:
			r.unknown(subject, "/"+file, err)
		default:
			r.ok(subject, "/"+file, "of "+nics)
		}
	}
}

// nicsOf are the NICs whose a Data Direct function is, more than one where the NIC has
// several ports. An error comes with the file that says so.
func (h Host) nicsOf(direct model.PCIAddress) (nics, file string, err error) {
	file = vpdFile(direct)
	own, err := h.vpd(direct)
	if err != nil {
		return "", file, err
	}
	var named []string
	var unread error
	unreadFile := ""
	for _, f := range h.functions(func(f model.PCIFunction) bool { return pciconfig.MayHaveDataDirect(&f) }) {
		other, err := h.vpd(f.Address)
		switch {
		case errors.Is(err, pciconfig.ErrNoKeyword): // one that has no Data Direct
		case err != nil:
			unread, unreadFile = err, vpdFile(f.Address)
		case other == own:
			named = append(named, h.subject(f.Address))
		}
	}
	switch {
	case len(named) > 0:
		return strings.Join(named, ", "), file, nil
	case unread != nil:
		return "", unreadFile, unread
	}
	return "", file, errNoNIC
}

func vpdFile(a model.PCIAddress) string { return "sys/" + pciconfig.VPDFile(a) }

// identity is what a function's vital product data says of whose it is, or why that
// cannot be read.
type identity struct {
	value string
	err   error
}

func (h Host) vpd(a model.PCIAddress) (string, error) {
	if known, ok := h.identities[a]; ok {
		return known.value, known.err
	}
	value, err := pciconfig.VPDKeyword(h.Files, vpdFile(a), pciconfig.DataDirectKeyword)
	if h.identities != nil {
		h.identities[a] = identity{value, err}
	}
	return value, err
}

// pairedByDataDirect says of a GPU without a NIC below its root whose Data Direct
// function is there, "" where there is none of a NIC. An error says why nobody can tell,
// and comes with the file.
func (h Host) pairedByDataDirect(g model.PCIFunction) (found, file string, err error) {
	directs := slices.DeleteFunc(h.dataDirects(), func(f model.PCIFunction) bool { return f.Root != g.Root })
	for _, f := range directs {
		nics, of, failed := h.nicsOf(f.Address)
		switch {
		case failed == nil:
			return fmt.Sprintf("Data Direct %s of %s", f.Address, nics), of, nil
		case !errors.Is(failed, errNoNIC):
			file, err = of, failed
		}
	}
	return "", file, err
}
