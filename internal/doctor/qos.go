// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/model"
)

// Settings of quality of service of NICs, also in a profile.
const (
	settingTrust        = "qos-trust"
	settingNotification = "ecn-roce-np"
	settingReaction     = "ecn-roce-rp"
	settingTrafficClass = "roce-traffic-class"
	settingTOS          = "roce-tos"
)

// qosSetting is one that a file says. The first four are of NVIDIA's own build of the
// driver alone; the last is there once somebody made the folder of the device.
type qosSetting struct {
	name string
	// file has INTERFACE and DEVICE for the names.
	file string
	read func(h Host, file string) (string, error)
	fix  string
}

var qosSettings = []qosSetting{
	{settingTrust, "sys/class/net/INTERFACE/qos/trust", Host.read, "mlnx_qos -i INTERFACE --trust=VALUE"},
	{settingNotification, "sys/class/net/INTERFACE/ecn/roce_np/enable", Host.enabled, "write 1 or 0 into the priority's file there"},
	{settingReaction, "sys/class/net/INTERFACE/ecn/roce_rp/enable", Host.enabled, "write 1 or 0 into the priority's file there"},
	{settingTrafficClass, "sys/class/infiniband/DEVICE/tc/1/traffic_class", Host.trafficClass, "write the number into the file"},
	{settingTOS, "sys/kernel/config/rdma_cm/DEVICE/ports/1/default_roce_tos", Host.read, "cma_roce_tos -d DEVICE -t VALUE"},
}

// of is the file of a NIC.
func (s qosSetting) of(n model.NIC) string {
	return strings.NewReplacer("INTERFACE", n.Interface.Name, "DEVICE", n.RDMA.Name).Replace(s.file)
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

// alikeIn compares NICs of a model in one setting, as far as their files say it.
func (h Host) alikeIn(setting qosSetting, model string, nics []model.NIC, r *report) {
	having := map[string][]string{} // devices by value
	for _, n := range nics {
		file := setting.of(n)
		value, err := setting.read(h, file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			r.unknown(subjectOf(n), "/"+file, err)
		default:
			having[value] = append(having[value], n.RDMA.Name)
		}
	}
	source := "/" + strings.NewReplacer("INTERFACE", "*", "DEVICE", "*").Replace(setting.file)
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

// qosSettingsOf are what the files of a NIC say, for its profile.
func (h Host) qosSettingsOf(n model.NIC) map[string]string {
	all := map[string]string{}
	if !onRoCE(n) {
		return all
	}
	for _, setting := range qosSettings {
		if value, err := setting.read(h, setting.of(n)); err == nil && value != "" {
			all[setting.name] = value
		}
	}
	return all
}
