// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/bpf"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// ReturnedNIC is a NIC that is back on the host, and what it was.
type ReturnedNIC struct {
	ID   nslink.Identity
	Want *State
	// Device restores what belongs to the device, too.
	Device bool
}

// Restore restores NICs to what they were. links are the host's, the NICs' among them,
// and are updated with each change. After an error with one NIC it goes on with the
// others. Repeating it changes nothing.
func (h *Host) Restore(links []rtnl.Link, nics []ReturnedNIC, now time.Time) error {
	errs := make([]error, len(nics))
	index, freed := make([]int, len(nics)), make([]bool, len(nics))
	for i, nic := range nics {
		index[i], freed[i], errs[i] = h.restoreFound(links, nic)
	}
	v, err := dumpBeside(h.Conn, links)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for i, nic := range nics {
		if errs[i] == nil {
			errs[i] = h.restoreEntries(v, index[i], nic.Want)
		}
		if errs[i] != nil {
			continue
		}
		// The way home may have ended between freeing the MAC and setting it again,
		// which nothing shows; staging starts after it.
		errs[i] = h.restoreVF(nic.Want.VF, freed[i] || !nic.Device, nic.Device)
		if nic.Device { // also where the physical function is away
			want := *nic.Want
			nics[i].Want = &want
			errs[i] = errors.Join(errs[i], h.restoreDevice(index[i], &want))
		}
	}
	if v, err = dump(h.Conn); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for i, nic := range nics { // restoreDevice removed the programs that are not expected back
		if errs[i] == nil {
			errs[i] = h.verify(v, nic, now)
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", nic.ID, errs[i])
		}
	}
	return errors.Join(errs...)
}

// restoreFound finds a NIC's link and restores it. freed says that the physical function
// of a virtual one had another MAC to free.
func (h *Host) restoreFound(links []rtnl.Link, nic ReturnedNIC) (index int, freed bool, err error) {
	link, err := nic.ID.Find(links)
	if err == nil && link == nil {
		err = errors.New("it is not on the host")
	}
	if err != nil {
		return 0, false, err
	}
	var free error
	if freed = (rtnl.Settings{MAC: nic.Want.Settings.MAC}).Beyond(link.Settings).MAC != nil; freed {
		free = h.FreeMAC(nic.Want.VF)
	}
	if err = h.restoreLink(links, link, nic.Want); err != nil {
		err = errors.Join(free, err)
	}
	return link.Index, freed, err
}

// restoreLink restores name, settings and state.
func (h *Host) restoreLink(links []rtnl.Link, link *rtnl.Link, want *State) error {
	// First, as one of them may be the name that the link gets.
	if err := DropAltNames(h.Conn, link, want); err != nil {
		return err
	}
	if err := h.restoreSettings(links, link, want); err != nil {
		return err
	}
	if err := h.restoreAltNames(links, link, want); err != nil {
		return err
	}
	// A link whose MTU a pod made too small for IPv6 has none of IPv6's settings
	// before the MTU is back.
	if mode := (rtnl.Settings{AddrGenMode: want.Settings.AddrGenMode}).Beyond(link.Settings); mode.AddrGenMode != nil {
		if err := h.Set(link.Index, rtnl.Change{Settings: mode}); err != nil {
			return fmt.Errorf("restore interface %s: %s: %w", want.Name, mode, err)
		}
	}
	if err := h.restoreToken(link, want); err != nil {
		return fmt.Errorf("restore interface %s: %w", want.Name, err)
	}
	if _, err := h.Sysctl.Restore(want.Name, want.Sysctls); err != nil {
		return fmt.Errorf("restore interface %s: %w", want.Name, err)
	}
	h.Step()
	// Enslaving drops IPv6 addresses, and moves IPv4's routes to its table.
	if err := h.restoreVRF(links, link, want); err != nil {
		return err
	}
	if want.Up && !link.Up {
		// Not together with the settings: the kernel makes link-local
		// addresses at once, in the way they say.
		return h.setUp(link, want.Name, true)
	}
	return nil
}

// restoreToken restores the token of IPv6 while the link is down: on a link that is up
// a router advertisement would make addresses at once.
func (h *Host) restoreToken(link *rtnl.Link, want *State) error {
	token := rtnl.Settings{Token: want.Settings.Token}.Beyond(link.Settings)
	if token.Token == nil {
		return nil
	}
	// The kernel accepts one only with router solicitations and advertisements on
	// (net/ipv6/addrconf.c, inet6_set_iftoken). The host may have switched them off
	// since: its own settings are restored after this.
	for key, value := range map[string]string{"ipv6/conf/accept_ra": "2", "ipv6/conf/router_solicitations": "1"} {
		if err := h.Sysctl.Write(want.Name, key, value); err != nil {
			return err
		}
	}
	h.Step()
	if err := h.Set(link.Index, rtnl.Change{Settings: token}); err != nil {
		return fmt.Errorf("%s: %w", token, err)
	}
	return nil
}

// restoreSettings restores the name, and all settings but those that depend on
// others.
func (h *Host) restoreSettings(links []rtnl.Link, link *rtnl.Link, want *State) error {
	change := rtnl.Change{Settings: want.Settings.Beyond(link.Settings)}
	change.AddrGenMode, change.Token = nil, nil
	if link.Name != want.Name {
		if nslink.OtherNamed(links, link.Index, want.Name) != nil {
			return fmt.Errorf("the host has another interface %q by now: the NIC is back as %s; rename the other one", want.Name, link.Name)
		}
		change.Name = &want.Name
	}
	if change == (rtnl.Change{}) {
		return nil
	}
	if link.Up && (change.Name != nil || change.MAC != nil) {
		// Older kernels and some drivers change these on a link that is down
		// only.
		if err := h.setUp(link, want.Name, false); err != nil {
			return err
		}
	}
	if err := h.Set(link.Index, change); err != nil {
		return fmt.Errorf("restore interface %s: %w", want.Name, err)
	}
	link.Name = want.Name
	return nil
}

func (h *Host) setUp(link *rtnl.Link, name string, up bool) error {
	if err := h.Set(link.Index, rtnl.Change{Up: &up}); err != nil {
		return fmt.Errorf("interface %s up: %t: %w", name, up, err)
	}
	link.Up = up
	return nil
}

func (h *Host) restoreVRF(links []rtnl.Link, link *rtnl.Link, want *State) error {
	if want.VRF == nil {
		return nil
	}
	i := slices.IndexFunc(links, func(l rtnl.Link) bool { return l.Name == *want.VRF })
	if i < 0 {
		return fmt.Errorf("interface %s was in VRF %s, which is gone: make it again", want.Name, *want.VRF)
	}
	if link.Master != nil && *link.Master == links[i].Index {
		return nil
	}
	return h.SetMaster(link.Index, &links[i].Index)
}

// restoreAltNames gives the link its alternative names back. One that another link has
// by now is skipped, which verify reports.
func (h *Host) restoreAltNames(links []rtnl.Link, link *rtnl.Link, want *State) error {
	for _, name := range want.AltNames {
		if slices.Contains(link.AltNames, name) || nslink.OtherNamed(links, link.Index, name) != nil {
			continue
		}
		if err := h.AddAltName(link.Index, name); err != nil {
			return err
		}
	}
	return nil
}

// DropAltNames deletes alternative names that the link did not have on the host: a link
// there may have one of them, and the kernel would refuse the move. link is updated.
func DropAltNames(conn *rtnl.Conn, link *rtnl.Link, want *State) error {
	var kept []string
	for i, name := range link.AltNames {
		if slices.Contains(want.AltNames, name) {
			kept = append(kept, name)
			continue
		}
		if err := conn.DeleteAltName(link.Index, name); err != nil {
			link.AltNames = append(kept, link.AltNames[i:]...)
			return err
		}
	}
	link.AltNames = kept
	return nil
}

// restoreDevice puts back what belongs to the device.
func (h *Host) restoreDevice(index int, want *State) error {
	if err := h.Ethtool.RestoreFeatures(want.Name, want.Features); err != nil {
		return err
	}
	h.Step()
	if err := h.Ethtool.SetPrivateFlags(want.Name, want.PrivateFlags); err != nil {
		return err
	}
	h.Step()
	if err := h.Ethtool.RestoreSettings(want.Name, want.Ethtool); err != nil {
		return err
	}
	h.Step()
	return h.restorePrograms(index, want)
}

// restorePrograms attaches the held programs again, and removes the others from
// want.Programs, as nothing is to be verified of them: one that was not held and no
// longer exists was detached by its owner before staging.
func (h *Host) restorePrograms(index int, want *State) error {
	if want.Key == "" {
		want.Programs = nil
		return nil
	}
	// An interrupted staging may have detached them before the record had the names
	// under which they are held.
	programs, err := h.Programs.Hold(want.Key, want.Programs)
	if errors.Is(err, fs.ErrNotExist) {
		programs, err = nil, nil
	}
	if err != nil {
		return err
	}
	want.Programs = programs
	if err := h.Programs.Restore(h.Fd(), h.Conn, index, programs); err != nil {
		return err
	}
	h.Step()
	return h.Programs.Release(want.Key)
}

// DropPrograms detaches the programs that a pod attached to a link: XDP and tcx programs
// would move to the host, and to the next pod, with it. It goes on after an error.
func DropPrograms(pod *nslink.NetNSConn, link *rtnl.Link, want *State) error {
	var err error
	if link.XDP && !want.XDP {
		err = pod.DetachXDP(link.Index)
	}
	return errors.Join(err, bpf.DetachOthers(pod.Fd(), link.Index, want.Programs))
}
