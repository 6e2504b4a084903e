// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"errors"
	"fmt"
	"strings"

	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// vfSetting is one setting of a virtual function.
type vfSetting struct {
	// field is the claim's, and command what sets it, behind "ip link set PF vf N".
	field, command string
	claimed        string
	// is what the physical function says; told is false where its driver says nothing.
	is   string
	told bool
}

// virtualFunction compares what a claim asks of a virtual function with what the physical
// one says of it now: a reset of the card may have made it forget.
func (e *evaluator) virtualFunction(claim *expect.Claim, d *expect.Device) {
	n := &d.Network
	if n.Err == nil && !n.SetsVF() {
		return
	}
	f := Finding{Claim: claim.Name, What: fmt.Sprintf("%s is set as claimed by its physical function", d.Request), placeless: true}
	v := collect.VirtualFunction{Err: n.Err}
	if d.PCI != nil && v.Err == nil {
		v = e.observed.VirtualFunctions[*d.PCI]
	}
	switch {
	case d.PCI == nil && v.Err == nil:
		f.State, f.Code, f.Why = StateUnknown, NotRead, "no slice publishes its PCI address"
	case v.Err != nil && n.Err == nil && n.VF == nil:
		// The driver sets the address of the interface itself then, as of any NIC.
		f.State, f.Why = StateNote, "interface.hardwareAddr: "+v.Err.Error()
	case errors.Is(v.Err, collect.ErrNotOnHost):
		// An observer never knows, and may stand beside an agent that does.
		f.State, f.Why = StateNote, v.Err.Error()
	case v.Err != nil:
		f.State, f.Code, f.Why = StateUnknown, NotRead, v.Err.Error()
	default:
		e.vfSettings(f, d, v)
		return
	}
	e.add(f)
}

// vfSettings adds a finding for each setting that is not as claimed, and one for all others.
func (e *evaluator) vfSettings(f Finding, d *expect.Device, v collect.VirtualFunction) {
	var good []string
	for _, s := range settingsOf(d.Network, v) {
		found := f
		found.What += ": " + s.field
		switch {
		case !s.told:
			found.State, found.Code, found.Why = StateUnknown, NotRead, fmt.Sprintf("the driver of physical function %s does not tell it", v.PF)
		case s.is == s.claimed:
			good = append(good, s.field+" "+s.is)
			continue
		case s.field == fieldMAC && v.Settings.Trust != nil && *v.Settings.Trust:
			found.State, found.Why = StateNote, fmt.Sprintf("physical function %s says %s of it, the claim %s; the function is trusted and may choose", v.PF, s.is, s.claimed)
		default:
			why := fmt.Sprintf("physical function %s says %s of its virtual function %d, the claim %s: the card was reset, or somebody set it; delete the pod, or ip link set %s vf %d %s",
				v.PF, s.is, v.Number, s.claimed, v.PF, v.Number, s.command)
			found.wrong(VFSettingsWrong, why, Difference{Of: deviceWords(d), Attribute: s.field, Claimed: s.claimed, Observed: s.is})
		}
		e.add(found)
	}
	if len(good) > 0 {
		f.State, f.Why = StateOK, fmt.Sprintf("%s, virtual function %d: %s", v.PF, v.Number, strings.Join(good, ", "))
		e.add(f)
	}
}

const fieldMAC = "interface.hardwareAddr"

// settingsOf are the settings that a claim asks for.
func settingsOf(n expect.Network, v collect.VirtualFunction) []vfSetting {
	var list []vfSetting
	now := v.Settings
	if n.HardwareAddr != "" && now.MAC != nil { // which is the interface's own where it is not told
		list = append(list, vfSetting{fieldMAC, "mac " + n.HardwareAddr, n.HardwareAddr, *now.MAC, true})
	}
	if n.VF == nil {
		return list
	}
	if n.VF.VLAN != nil {
		list = append(list, vlanOf(n, v))
	}
	rate := func(name, command string, claimed *int32, is func() uint32) {
		if claimed == nil {
			return
		}
		s := vfSetting{field: "interface.vf." + name, command: fmt.Sprintf("%s %d", command, *claimed), claimed: fmt.Sprint(*claimed), told: now.Rate != nil}
		if s.told {
			s.is = fmt.Sprint(is())
		}
		list = append(list, s)
	}
	rate("minTxRate", "min_tx_rate", n.VF.MinTxRate, func() uint32 { return now.Rate.Min })
	rate("maxTxRate", "max_tx_rate", n.VF.MaxTxRate, func() uint32 { return now.Rate.Max })
	flag := func(name, command string, claimed, is *bool) {
		if claimed == nil {
			return
		}
		word := map[bool]string{true: "on", false: "off"}[*claimed]
		s := vfSetting{field: "interface.vf." + name, command: command + " " + word, claimed: fmt.Sprint(*claimed), told: is != nil}
		if s.told {
			s.is = fmt.Sprint(*is)
		}
		list = append(list, s)
	}
	flag("spoofCheck", "spoofchk", n.VF.SpoofCheck, now.SpoofCheck)
	flag("trust", "trust", n.VF.Trust, now.Trust)
	return list
}

// tag8021Q is the Ethernet type of the tags that claims ask for (include/uapi/linux/if_ether.h,
// ETH_P_8021Q).
const tag8021Q = 0x8100

// vlanOf is a VLAN with its priority, which are set together.
func vlanOf(n expect.Network, v collect.VirtualFunction) vfSetting {
	qos := int32(0)
	if n.VF.VLANQoS != nil {
		qos = *n.VF.VLANQoS
	}
	words := func(id, qos any) string { return fmt.Sprintf("%d, vlanQoS %d", id, qos) }
	s := vfSetting{field: "interface.vf.vlan", command: fmt.Sprintf("vlan %d qos %d", *n.VF.VLAN, qos), claimed: words(*n.VF.VLAN, qos)}
	if now := v.Settings.VLAN; now != nil {
		s.told, s.is = true, words(now.ID, now.QoS)
		// Where there is no VLAN the protocol says nothing.
		if now.ID != 0 && now.Protocol != tag8021Q {
			s.is += fmt.Sprintf(", protocol %#04x", now.Protocol)
		}
	}
	return s
}
