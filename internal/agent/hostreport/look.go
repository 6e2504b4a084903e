// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"slices"
	"strings"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/doctor"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/printable"
)

// Look looks at a host, of whose NICs pods hold some. The files are opened anew at each
// look: pods' mounts and the first process's root are not kept busy between them.
func Look(m *model.Machine, held []model.NIC, p Paths) hosts.Report {
	files := openFiles(p)
	defer func() { _ = files.close() }() // only read
	host := doctor.Host{Machine: m, Files: files, DCB: p.DCB}
	report := doctor.Report(withoutHeld(doctor.Run(host), held))
	report.Profile = doctor.Profile(host)
	return bounded(report)
}

// moved are the files of a NIC that go into a pod's namespaces with it, and what its driver
// tells there.
var moved = []string{"/sys/class/", "/dev/", "/proc/sys/net/", "dcb "}

// withoutHeld leaves out what is found in files of NICs that pods hold. What their PCI
// functions say holds wherever the NIC is, and stays.
func withoutHeld(findings []hosts.Finding, held []model.NIC) []hosts.Finding {
	return slices.DeleteFunc(findings, func(f hosts.Finding) bool {
		if !slices.ContainsFunc(moved, func(dir string) bool { return strings.HasPrefix(f.Source, dir) }) {
			return false
		}
		address, _, _ := strings.Cut(f.Subject, " ")
		return slices.ContainsFunc(held, func(n model.NIC) bool { return n.PCI != nil && n.PCI.String() == address })
	})
}

// Limits of the definition of HostReport, which counts characters: bytes are never fewer.
const (
	maxShort = 256
	maxLong  = 1024
)

// bounded is a report that the API server takes. Links, devices and firmware name
// themselves.
func bounded(r hosts.Report) hosts.Report {
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Subject = text(maxShort, f.Subject)
		for _, field := range []*string{&f.Found, &f.Source, &f.Want, &f.Fix} {
			*field = text(maxLong, *field)
		}
	}
	r.Profile.Kernel = text(maxShort, r.Profile.Kernel)
	boundedSettings(r.Profile.Settings)
	for i := range r.Profile.Devices {
		r.Profile.Devices[i].Model = text(maxShort, r.Profile.Devices[i].Model)
		boundedSettings(r.Profile.Devices[i].Settings)
	}
	return r
}

func boundedSettings(all map[string]string) {
	for name, value := range all {
		all[name] = text(maxShort, value)
	}
}

func text(most int, s string) string { return kube.BoundedText(most, printable.Text(s)) }
