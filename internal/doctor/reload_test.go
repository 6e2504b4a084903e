// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"plumbline.dev/plumbline/internal/model"
)

// withReason withholds the host's NIC with a PCI address.
func withReason(pci, reason string) func(*model.Machine) {
	return func(m *model.Machine) {
		for i := range m.NICs {
			if m.NICs[i].PCI.String() == pci {
				m.NICs[i].Withheld = &reason
			}
		}
	}
}

func TestReloadHazards(t *testing.T) {
	loaded := func(files map[string]string) map[string]string {
		all := map[string]string{"sys/module/mlx5_core/refcnt": "3\n"}
		for name, text := range files {
			all[name] = text
		}
		return all
	}
	driver := func(change func(*model.Machine), names ...string) func(*model.Machine) {
		return func(m *model.Machine) {
			for i, f := range m.Functions {
				for _, name := range names {
					if f.Address.String() == name {
						m.Functions[i].Driver = new("mlx5_core")
					}
				}
			}
			if change != nil {
				change(m)
			}
		}
	}
	for _, tc := range []struct {
		name    string
		machine func(*model.Machine)
		files   map[string]string
		want    []string
	}{
		{"nothing hangs from them", driver(nil, nicA, nicB), loaded(nil), nil},
		{"the way out", driver(withReason(nicA, "carries the default route"), nicA, nicB), loaded(nil), []string{"carries the default route"}},
		{"the way out by another driver", driver(withReason(nicA, "carries the default route"), nicB), loaded(nil), nil},
		{
			"storage", driver(nil, nicA), loaded(map[string]string{"sys/module/nvme_rdma/refcnt": "2\n", "sys/module/ib_iser/refcnt": "0\n"}),
			[]string{"module nvme_rdma has 2 users"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := hostWith(t, tc.machine, tc.files)
			got, err := ReloadHazards(h, "mlx5_core")
			if err != nil || len(got) != len(tc.want) || !slices.EqualFunc(got, tc.want, strings.Contains) {
				t.Errorf("%q, %v; want %q", got, err, tc.want)
			}
		})
	}
	renamed := hostWith(t, driver(withReason(nicA, "carries the default route"), nicA), map[string]string{"sys/module/mlx5/refcnt": "3\n"})
	renamed.Files.(someUnreadable).MapFS["sys/bus/pci/drivers/mlx5_core/module"] = &fstest.MapFile{Data: []byte("../../../../module/mlx5"), Mode: fs.ModeSymlink}
	if got, err := ReloadHazards(renamed, "mlx5"); err != nil || len(got) != 1 {
		t.Errorf("a module of another name than its driver: %q, %v", got, err)
	}
	busy := hostWith(t, driver(withReason(nicA, "carries the default route"), nicA), loaded(nil))
	if got, err := ReloadHazards(busy, "bnxt_en"); err != nil || len(got) > 0 {
		t.Errorf("a module that is not loaded: %q, %v", got, err)
	}
	if _, err := ReloadHazards(hostWith(t, nil, loaded(map[string]string{"sys/module/nvme_rdma/refcnt": "many\n"})), "mlx5_core"); err == nil {
		t.Error("a count that is none is taken")
	}
}
