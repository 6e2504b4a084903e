// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

func TestCoreTypes(t *testing.T) {
	kind := func(kinds ...string) (cpus []sysfs.CPU) {
		for _, k := range kinds {
			cpus = append(cpus, sysfs.CPU{Kind: k})
		}
		return cpus
	}
	capacity := func(capacities ...int) (cpus []sysfs.CPU) {
		for _, c := range capacities {
			cpus = append(cpus, sysfs.CPU{Capacity: &c})
		}
		return append(cpus, sysfs.CPU{}) // one that is offline
	}
	const p, e = model.PerformanceCore, model.EfficiencyCore
	for name, test := range map[string]struct {
		cpus []sysfs.CPU
		want []model.CoreType
	}{
		"a server":                {kind("", ""), []model.CoreType{"", ""}},
		"hybrid x86":              {kind("cpu_core", "cpu_atom", ""), []model.CoreType{p, e, ""}},
		"only atoms":              {kind("cpu_atom", "cpu_atom"), []model.CoreType{"", ""}},
		"Arm with little cores":   {capacity(1024, 530), []model.CoreType{p, e, ""}},
		"Arm with three kinds":    {capacity(1024, 900, 300), []model.CoreType{p, p, e, ""}},
		"Arm, binned differently": {capacity(1024, 1000, 980), []model.CoreType{"", "", "", ""}},
	} {
		typeOf := coreTypes(test.cpus)
		for i, want := range test.want {
			if got := typeOf(test.cpus[i]); got != want {
				t.Errorf("%s: CPU %d is %q, want %q", name, i, got, want)
			}
		}
	}
}
