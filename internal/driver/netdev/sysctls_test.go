// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"maps"
	"testing"

	"plumbline.dev/plumbline/internal/driver/netdev/side"
)

// A NIC that is renamed after the look has no files by its old name, which may have
// become another name of it: that teaches nothing about NICs with its settings.
func TestSettingsOfARenamedNIC(t *testing.T) {
	l := newLab(t)
	nics := l.machine(t).NICs
	look, err := l.driver.host.Look()
	if err != nil {
		t.Fatal(err)
	}
	l.host.Run(t, `
		ip link set nic0 name other
		ip link property add dev other altname nic0`)
	if seen, err := look.Read(side.IdentityOf(nics[0], nil)); err == nil && len(seen.State.Sysctls) > 0 {
		t.Errorf("the old name has settings: %v", seen.State.Sysctls)
	}
	seen, err := readOne(l.driver, side.IdentityOf(nics[1], nil))
	if err != nil {
		t.Fatal(err)
	}
	want, err := l.newDriver(t).host.Sysctl.Snapshot("nic1", "", nil)
	if err != nil || len(want) == 0 || !maps.Equal(seen.State.Sysctls, want) {
		t.Errorf("the settings of nic1 are %v, want %v, %v", seen.State.Sysctls, want, err)
	}
}
