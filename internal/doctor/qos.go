// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/host/dcb"
	"plumbline.dev/plumbline/internal/model"
)

// Settings of quality of service of NICs, also in a profile.
const (
	settingTrust        = "qos-trust"
	settingNotification = "ecn-roce-np"
	settingReaction     = "ecn-roce-rp"
	settingTrafficClass = "roce-traffic-class"
	settingTOS          = "roce-tos"
	settingFlowControl  = "pfc"
	settingDSCP         = "dscp-priorities"
)

// qosSetting is one that a file says, or the driver by netlink. The first four are of NVIDIA's
// own build of the driver alone; the fifth is there once somebody made the folder of the
// device.
type qosSetting struct {
	name string
	// file has INTERFACE and DEVICE for the names; read is nil where the driver is asked.
	file string
	read func(h Host, file string) (string, error)
	// command shows what told takes from the driver's answer.
	command string
	told    func(dcb.Settings) string
	fix     string
}

var qosSettings = []qosSetting{
	{name: settingTrust, file: "sys/class/net/INTERFACE/qos/trust", read: Host.read, fix: "mlnx_qos -i INTERFACE --trust=VALUE"},
	{name: settingNotification, file: "sys/class/net/INTERFACE/ecn/roce_np/enable", read: Host.enabled, fix: "write 1 or 0 into the priority's file there"},
	{name: settingReaction, file: "sys/class/net/INTERFACE/ecn/roce_rp/enable", read: Host.enabled, fix: "write 1 or 0 into the priority's file there"},
	{name: settingTrafficClass, file: "sys/class/infiniband/DEVICE/tc/1/traffic_class", read: Host.trafficClass, fix: "write the number into the file"},
	{name: settingTOS, file: "sys/kernel/config/rdma_cm/DEVICE/ports/1/default_roce_tos", read: Host.read, fix: "cma_roce_tos -d DEVICE -t VALUE"},
	{name: settingFlowControl, command: "dcb pfc show dev INTERFACE", told: flowControl, fix: "dcb pfc set dev INTERFACE prio-pfc all:off PRIORITY:on"},
	{name: settingDSCP, command: "dcb app show dev INTERFACE dscp-prio", told: dscpPriorities, fix: "dcb app replace dev INTERFACE dscp-prio DSCP:PRIORITY"},
}

// source is where a setting is said, of a NIC that has these names.
func (s qosSetting) source(ifname, device string) string {
	where := s.command
	if s.read != nil {
		where = "/" + s.file
	}
	return strings.NewReplacer("INTERFACE", ifname, "DEVICE", device).Replace(where)
}

// valueOf is a setting of a NIC; an error that is fs.ErrNotExist where nobody says it.
func (h Host) valueOf(s qosSetting, n model.NIC) (string, error) {
	if s.read != nil {
		return s.read(h, strings.TrimPrefix(s.source(n.Interface.Name, n.RDMA.Name), "/"))
	}
	if h.DCB == nil {
		return "", fs.ErrNotExist
	}
	settings, err := h.DCB(n.Interface.Name)
	if err != nil {
		return "", err
	}
	if value := s.told(settings); value != "" {
		return value, nil
	}
	return "", fs.ErrNotExist
}

// flowControl are the priorities with flow control, "" where the driver does not tell.
func flowControl(s dcb.Settings) string {
	if s.FlowControl == nil {
		return ""
	}
	var on []string
	for priority := range 8 {
		if *s.FlowControl&(1<<priority) != 0 {
			on = append(on, strconv.Itoa(priority))
		}
	}
	if len(on) == 0 {
		return "none"
	}
	return "priorities " + strings.Join(on, ",")
}

// dscpPriorities is the table of a driver that tells one, in one order.
func dscpPriorities(s dcb.Settings) string {
	var all []string
	for _, p := range slices.SortedFunc(slices.Values(s.DSCP), func(a, b dcb.Priority) int {
		return cmp.Or(cmp.Compare(a.DSCP, b.DSCP), cmp.Compare(a.Priority, b.Priority))
	}) {
		all = append(all, fmt.Sprintf("%d:%d", p.DSCP, p.Priority))
	}
	if len(all) == 0 && s.FlowControl != nil {
		return "none" // it tells of DCB, and has no entry
	}
	return strings.Join(all, " ")
}

// enabled are the priorities whose file in a folder says 1.
func (h Host) enabled(dir string) (string, error) {
	entries, err := fs.ReadDir(h.Files, dir)
	if err != nil {
		return "", err
	}
	var on []string
	for _, e := range entries {
		value, err := h.read(path.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		if value == "1" {
			on = append(on, e.Name())
		}
	}
	if len(on) == 0 {
		return "none", nil
	}
	return "priorities " + strings.Join(on, ","), nil
}

// trafficClass is the one of all traffic of a device. Rules for single addresses may
// follow it in the file.
func (h Host) trafficClass(file string) (string, error) {
	text, err := h.read(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "Global tclass="); ok {
			if _, err := strconv.ParseUint(value, 10, 8); err != nil {
				return "", fmt.Errorf("traffic class: %w", err)
			}
			return value, nil
		}
	}
	return notSet, nil
}

// onRoCE says whether a NIC carries RDMA over Ethernet, of which these settings are.
func onRoCE(n model.NIC) bool {
	return n.Interface != nil && n.RDMA != nil && n.RDMA.Name != "" && n.RDMA.LinkLayer != nil && *n.RDMA.LinkLayer == "Ethernet"
}

// qos wants RoCE NICs of one model to mark and trust packets alike: a switch without loss
// for one class drops those that come in another. Which values are right the network
// decides.
func qos(h Host, r *report) {
	models := map[string][]model.NIC{}
	for _, n := range h.rdmaNICs() {
		if f := h.Machine.Function(*n.PCI); f != nil && f.PhysicalFunction == nil && onRoCE(n) {
			name := fmt.Sprintf("%04x:%04x", f.Vendor, f.Device)
			if f.DeviceName != nil {
				name += " " + *f.DeviceName
			}
			models[name] = append(models[name], n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(models)) {
		for _, setting := range qosSettings {
			h.alikeIn(setting, name, models[name], r)
		}
	}
}

// alikeIn compares NICs of a model in one setting, as far as it is said of them.
func (h Host) alikeIn(setting qosSetting, model string, nics []model.NIC, r *report) {
	having := map[string][]string{} // devices by value
	for _, n := range nics {
		value, err := h.valueOf(setting, n)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil && setting.name == settingDSCP: // told of flow control, which the same answer has
		case err != nil:
			r.unknown(subjectOf(n), setting.source(n.Interface.Name, n.RDMA.Name), err)
		default:
			having[value] = append(having[value], n.RDMA.Name)
		}
	}
	source := setting.source("*", "*")
	var found []string
	for _, value := range slices.Sorted(maps.Keys(having)) {
		found = append(found, fmt.Sprintf("%s %s on %s", setting.name, value, strings.Join(having[value], ", ")))
	}
	switch {
	case len(found) > 1:
		r.wrong(model, source, strings.Join(found, "; "), "one value for all", setting.fix)
	case len(found) == 1:
		r.ok(model, source, found[0])
	}
}

// qosSettingsOf are what the files and the driver of a NIC say, for its profile.
func (h Host) qosSettingsOf(n model.NIC) map[string]string {
	all := map[string]string{}
	if !onRoCE(n) {
		return all
	}
	for _, setting := range qosSettings {
		if value, err := h.valueOf(setting, n); err == nil && value != "" {
			all[setting.name] = value
		}
	}
	return all
}
