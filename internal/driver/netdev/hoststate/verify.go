// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/bpf"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// comparison is an interface as it was beside what it is.
type comparison struct {
	want, have *State
	// missing are routes of want that could be there and are not.
	missing []rtnl.Saved
	// links are the host's.
	links []rtnl.Link
	now   time.Time
}

// verify names what is not as it was.
func (c *comparison) verify() error {
	var errs []error
	for _, e := range Entries {
		if e.differs == nil {
			continue
		}
		for _, text := range e.differs(c) {
			errs = append(errs, fmt.Errorf("verify interface %s: %s: %s", c.want.Name, e.What, text))
		}
	}
	return errors.Join(errs...)
}

func nameDiffers(c *comparison) []string {
	if c.have.Name == c.want.Name {
		return nil
	}
	return []string{fmt.Sprintf("is %q, was %q", c.have.Name, c.want.Name)}
}

func altNamesDiffer(c *comparison) []string {
	var texts []string
	for _, name := range c.want.AltNames {
		if slices.Contains(c.have.AltNames, name) {
			continue
		}
		text := fmt.Sprintf("%q is missing", name)
		if other := nslink.OtherNamed(c.links, c.have.Index, name); other != nil {
			text += fmt.Sprintf(": interface %s of the host has it by now: take it away there", other.Name)
		}
		texts = append(texts, text)
	}
	for _, name := range c.have.AltNames {
		if !slices.Contains(c.want.AltNames, name) {
			texts = append(texts, fmt.Sprintf("%q is new", name))
		}
	}
	return texts
}

func stateDiffers(c *comparison) []string {
	if !c.want.Up || c.have.Up {
		return nil // the host has set it up since, on purpose
	}
	return []string{"it is down, was up"}
}

func settingsDiffer(c *comparison) []string {
	if lost := c.want.Settings.Beyond(c.have.Settings); lost != (rtnl.Settings{}) {
		return []string{"no more " + lost.String()}
	}
	return nil
}

func vrfDiffers(c *comparison) []string {
	if c.want.VRF == nil || c.have.VRF != nil && *c.have.VRF == *c.want.VRF {
		return nil
	}
	return []string{"it is not in " + *c.want.VRF + " any more"}
}

func addressesDiffer(c *comparison) []string {
	return absent(without(c.want.Addresses, c.have.Addresses), c.now)
}

func routesDiffer(c *comparison) []string { return absent(c.missing, c.now) }

func rulesDiffer(c *comparison) []string {
	return absent(without(c.want.Rules, c.have.Rules), c.now)
}

// readBack has nothing to compare: sysctl.Net.Restore and
// ethtool.Conn.RestoreSettings have read all of them, and read back what they wrote.
func readBack(*comparison) []string { return nil }

func queueingDiffers(c *comparison) []string {
	var texts []string
	for _, q := range [][2]*rtnl.Qdisc{{c.want.Root, c.have.Root}, {c.want.Ingress, c.have.Ingress}} {
		if q[0] != nil && (q[1] == nil || !q[0].Equal(q[1].Saved)) {
			texts = append(texts, q[0].Text+" is missing")
		}
	}
	return texts
}

func featuresDiffer(c *comparison) []string { return flags(c.want.Features, c.have.Features) }

func flagsDiffer(c *comparison) []string { return flags(c.want.PrivateFlags, c.have.PrivateFlags) }

func flags(want, have map[string]bool) []string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if was, known := want[name]; known && was != have[name] {
			texts = append(texts, fmt.Sprintf("%s is %t, was %t", name, have[name], was))
		}
	}
	return texts
}

// programsDiffer is called only where the device was read again.
func programsDiffer(c *comparison) []string {
	if c.have.Features == nil {
		return nil
	}
	var texts []string
	for _, p := range c.want.Programs {
		there := func(q bpf.Attachment) bool {
			return q.Kind == p.Kind && q.Direction == p.Direction && q.Program == p.Program
		}
		if !slices.ContainsFunc(c.have.Programs, there) {
			texts = append(texts, p.String()+" is missing")
		}
	}
	return texts
}

// absent says that entries are missing that have not expired since.
func absent(list []rtnl.Saved, now time.Time) []string {
	var texts []string
	for _, s := range list {
		if !s.Expired(now) {
			texts = append(texts, s.Text+" is missing")
		}
	}
	return texts
}

// without are the entries of a list that another lacks.
func without(list, other []rtnl.Saved) []rtnl.Saved {
	known := make(messages, len(other))
	for _, s := range other {
		known.add(s)
	}
	return slices.DeleteFunc(slices.Clone(list), known.has)
}

// verify reads a NIC again and names what is not as it was.
func (h *Host) verify(v *dumps, nic ReturnedNIC, now time.Time) error {
	link, err := nic.ID.Find(v.links)
	if err == nil && link == nil {
		err = errors.New("it is not on the host any more")
	}
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	seen := &HostNIC{State: State{Name: link.Name, Index: link.Index, AltNames: link.AltNames, Up: link.Up, Settings: link.Settings}}
	if link.Master != nil {
		name := linkName(v.links, *link.Master)
		seen.State.VRF = &name
	}
	seen.readAddresses(v)
	c := comparison{want: nic.Want, have: &seen.State, links: v.links, now: now}
	var errs []error
	c.missing, err = missingRoutes(v, link.Index, nic.Want)
	errs = append(errs, err)
	seen.State.Neighbourhood, err = h.neighbourhood(link.Index, &nic.Want.Neighbourhood)
	errs = append(errs, err)
	if len(nic.Want.Rules) > 0 {
		rules, err := h.Rules()
		errs = append(errs, err)
		seen.readRules(rules)
	}
	if nic.Want.Root != nil || nic.Want.Ingress != nil {
		errs = append(errs, h.readQueueing(seen))
	}
	if nic.Device {
		errs = append(errs, h.readDevice(seen))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	return c.verify()
}
