// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// fakePF stands for the driver of a physical function, of which a kernel without such
// hardware has none. It is kept in a file, so that a process that is killed leaves it as
// it was.
type fakePF struct {
	path string
	// step is called before and after each setting.
	step func()
	// namespaces are descriptors of those that its functions' interfaces can be in, nic0
	// of the first one and nic1 of the second.
	namespaces []int

	mutex sync.Mutex
}

// pfState is what it has.
type pfState struct {
	// InUse makes it tell the MAC in use where the administrator set none, and refuse
	// functions another one where he did, as igb does; else it is like mlx5.
	InUse bool
	// KeepsMAC makes it refuse to free a MAC beside spoof checking, as older mlx5 does.
	KeepsMAC bool
	// Changes are how many settings it takes before it refuses; below 0 all.
	Changes int
	// Busy is how many calls it refuses because of a reset.
	Busy int
	// Calls are all that it got.
	Calls int
	// VFs are those of the addresses 0000:01:10.0 and 0000:01:11.0; a MAC is the
	// administrator's.
	VFs []rtnl.VF
}

// newPF is one whose first function has all settings, and whose second has a VLAN only.
func (l *lab) newPF(t *testing.T, inUse bool, pods ...*hosttest.Namespace) *fakePF {
	t.Helper()
	l.pf = &fakePF{path: filepath.Join(t.TempDir(), "pf.json"), step: func() {}, namespaces: []int{l.host.Fd()}}
	for _, pod := range pods {
		l.pf.namespaces = append(l.pf.namespaces, pod.Fd())
	}
	l.pf.write(t, pfState{InUse: inUse, Changes: -1, VFs: []rtnl.VF{
		{Number: 0, VFSettings: rtnl.VFSettings{
			MAC: ptr("02:00:00:00:00:00"), VLAN: &rtnl.VFVLAN{Protocol: 0x8100}, Rate: &rtnl.VFRate{Max: 500}, SpoofCheck: ptr(true), Trust: ptr(false),
		}},
		{Number: 1, VFSettings: rtnl.VFSettings{MAC: ptr(rtnl.NoMAC), VLAN: &rtnl.VFVLAN{ID: 9, QoS: 1, Protocol: 0x88a8}}},
	}})
	l.driver = l.newDriver(t)
	return l.pf
}

func (p *fakePF) load() (s pfState, err error) {
	text, err := os.ReadFile(p.path)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

func (p *fakePF) save(s pfState) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(p.path, text, 0o600)
	}
	return err
}

func (p *fakePF) read(t testing.TB) pfState {
	t.Helper()
	s, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (p *fakePF) write(t *testing.T, s pfState) {
	t.Helper()
	if err := p.save(s); err != nil {
		t.Fatal(err)
	}
}

// edit changes it behind the driver's back.
func (p *fakePF) edit(t *testing.T, change func(*pfState)) {
	t.Helper()
	s := p.read(t)
	change(&s)
	p.write(t, s)
}

// expect compares the settings of its functions.
func (p *fakePF) expect(t *testing.T, what string, want []rtnl.VF) {
	t.Helper()
	if diff := cmp.Diff(want, p.read(t).VFs); diff != "" {
		t.Errorf("%s: virtual functions (-want +got):\n%s", what, diff)
	}
}

// reset makes all functions what they are after a reset of the card.
func reset(s *pfState) {
	for i := range s.VFs {
		vf := &s.VFs[i].VFSettings
		vf.MAC = ptr(rtnl.NoMAC)
		if vf.VLAN != nil {
			vf.VLAN = &rtnl.VFVLAN{Protocol: 0x8100}
		}
		if vf.Rate != nil {
			vf.Rate = &rtnl.VFRate{}
		}
		if vf.Trust != nil {
			vf.Trust = ptr(false)
		}
	}
}

// tree is /sys of its functions: the numbers are links.
func (p *fakePF) tree(t testing.TB) fstest.MapFS {
	t.Helper()
	text := "bus/pci/devices/0000:01:00.0 -> ../../../devices/pci0000:00/0000:01:00.0\n"
	for i, vf := range p.read(t).VFs {
		text += fmt.Sprintf("bus/pci/devices/0000:01:1%d.0 -> ../../../devices/pci0000:00/0000:01:1%[1]d.0\n"+
			"devices/pci0000:00/0000:01:1%[1]d.0/class = 0x020000\n"+
			"devices/pci0000:00/0000:01:00.0/virtfn%d -> ../0000:01:1%[1]d.0\n", i, vf.Number)
	}
	return hosttest.Tree(t, text)
}

// mac is the one that a function uses, by its interface; empty where that is away.
func (p *fakePF) mac(function int) (string, error) {
	for _, namespace := range p.namespaces {
		conn, err := rtnl.Dial(namespace)
		if err != nil {
			return "", err
		}
		link, err := conn.LinkByName(fmt.Sprintf("nic%d", function))
		conn.Close()
		if err != nil {
			return "", err
		}
		if link != nil && link.MAC != nil {
			return *link.MAC, nil
		}
	}
	return "", nil
}

// VFs tells what the administrator set.
func (p *fakePF) VFs(int) ([]rtnl.VF, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	s, err := p.load()
	for i := range s.VFs {
		if s.InUse && *s.VFs[i].MAC == rtnl.NoMAC {
			var mac string
			if mac, err = p.mac(i); err != nil {
				return nil, err
			}
			s.VFs[i].MAC = &mac
		}
	}
	return s.VFs, err
}

// refusal is why a function's MAC cannot be set, or was not the function's to choose.
func (p *fakePF) refusal(s pfState, function int, want *string) error {
	now := s.VFs[function].VFSettings
	if s.KeepsMAC && want != nil && *want == rtnl.NoMAC && now.SpoofCheck != nil && *now.SpoofCheck {
		return unix.EPERM
	}
	if !s.InUse || *now.MAC == rtnl.NoMAC {
		return nil
	}
	mac, err := p.mac(function)
	if err == nil && mac != *now.MAC {
		err = fmt.Errorf("the function overrode the administrator's MAC %s with %s, which such drivers refuse", *now.MAC, mac)
	}
	return err
}

// SetVF changes one setting after the other, in the order of the kernel's do_setvfinfo.
func (p *fakePF) SetVF(_, number int, want rtnl.VFSettings) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	s, err := p.load()
	if err != nil {
		return err
	}
	s.Calls++
	if s.Busy > 0 {
		s.Busy--
		return errors.Join(unix.EAGAIN, p.save(s))
	}
	i := slices.IndexFunc(s.VFs, func(vf rtnl.VF) bool { return vf.Number == number })
	if i < 0 {
		return fmt.Errorf("no virtual function %d", number)
	}
	now := &s.VFs[i].VFSettings
	if err := p.refusal(s, i, want.MAC); err != nil {
		return err
	}
	for _, set := range []struct {
		asked bool
		set   func()
	}{
		{want.MAC != nil, func() { now.MAC = want.MAC }}, {want.VLAN != nil, func() { now.VLAN = want.VLAN }},
		{want.Rate != nil, func() { now.Rate = want.Rate }}, {want.SpoofCheck != nil, func() { now.SpoofCheck = want.SpoofCheck }},
		{want.Trust != nil, func() { now.Trust = want.Trust }},
	} {
		if !set.asked {
			continue
		}
		p.step()
		if s.Changes == 0 {
			return errors.New("out of changes")
		}
		s.Changes--
		set.set()
		if err := p.save(s); err != nil {
			return err
		}
		p.step()
	}
	return nil
}
