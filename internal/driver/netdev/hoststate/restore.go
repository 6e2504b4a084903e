// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Return is a NIC that is back on the host, and what it was.
type Return struct {
	ID   nslink.Identity
	Want *State
	// Device restores what belongs to the device, too.
	Device bool
}

// Restore makes NICs what they were. links are the host's, among them the
// NICs', and are changed along. One that fails does not keep the others.
// Repeating it changes nothing.
func (h *Host) Restore(links []rtnl.Link, nics []Return, now time.Time) error {
	errs := make([]error, len(nics))
	index := make([]int, len(nics))
	for i, nic := range nics {
		link, err := nic.ID.Find(links)
		if err == nil && link == nil {
			err = errors.New("it is not on the host")
		}
		if err == nil {
			index[i] = link.Index
			err = h.restoreLink(links, link, nic.Want)
		}
		errs[i] = err
	}
	v, err := dumpBeside(h.Conn, links)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for i, nic := range nics {
		if errs[i] == nil {
			errs[i] = h.restoreEntries(v, index[i], nic.Want)
		}
		if errs[i] == nil && nic.Device {
			want := *nic.Want
			nics[i].Want = &want
			errs[i] = h.restoreDevice(index[i], &want)
		}
	}
	if v, err = dump(h.Conn); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for i, nic := range nics { // by now without programs that nobody misses
		if errs[i] == nil {
			errs[i] = h.verify(v, nic, now)
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", nic.ID, errs[i])
		}
	}
	return errors.Join(errs...)
}

// restoreLink restores name, settings and state.
func (h *Host) restoreLink(links []rtnl.Link, link *rtnl.Link, want *State) error {
	// First, for one of them may be the name that the link shall have.
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

// restoreToken restores the token of IPv6 while the link is down: what it hears
// of routers makes addresses at once.
func (h *Host) restoreToken(link *rtnl.Link, want *State) error {
	token := rtnl.Settings{Token: want.Settings.Token}.Beyond(link.Settings)
	if token.Token == nil {
		return nil
	}
	// The kernel takes one only where routers are asked and listened to
	// (net/ipv6/addrconf.c, inet6_set_iftoken). The host may have ended that
	// since: its own settings come after this.
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

// restoreAltNames gives the link its alternative names back. One that is
// another's by now is passed over, which verifying says.
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

// DropAltNames takes names away that the link did not have on the host: they
// could be another's there, and the kernel would refuse the move. The link is
// changed along.
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
