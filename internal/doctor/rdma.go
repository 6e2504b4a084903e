// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// rdmaDevices wants each RDMA device's file of verbs, and the connection manager's.
func rdmaDevices(h Host, r *report) {
	nics := h.rdmaNICs()
	for _, n := range nics {
		source := "/sys/class/infiniband/" + n.RDMA.Name + "/device/infiniband_verbs"
		verbs := slices.DeleteFunc(slices.Clone(n.RDMA.CharDevices), func(f string) bool { return !strings.Contains(f, "/uverbs") })
		if len(verbs) == 0 {
			r.wrong(subjectOf(n), source, "no uverbs device", "one", "modprobe ib_uverbs")
			continue
		}
		file := strings.TrimPrefix(verbs[0], "/")
		if there, err := h.exists(file); err != nil {
			r.unknown(subjectOf(n), "/"+file, err)
		} else if !there {
			r.wrong(subjectOf(n), "/"+file, "is not there", "a character device", "udevadm trigger --subsystem-match=infiniband_verbs")
		} else {
			r.ok(subjectOf(n), "/"+file, "is there")
		}
	}
	if len(nics) == 0 {
		return
	}
	const manager = "dev/infiniband/rdma_cm"
	if there, err := h.exists(manager); err != nil {
		r.unknown("", "/"+manager, err)
	} else if !there {
		r.wrong("", "/"+manager, "is not there", "a character device", "modprobe rdma_ucm")
	} else {
		r.ok("", "/"+manager, "is there")
	}
}

// rdmaPorts wants the first port of each RDMA device active, and on InfiniBand under a
// subnet manager.
func rdmaPorts(h Host, r *report) {
	for _, n := range h.rdmaNICs() {
		port := path.Join("sys/class/infiniband", n.RDMA.Name, "ports/1")
		state, err := h.read(path.Join(port, "state"))
		if err != nil {
			r.unknown(subjectOf(n), "/"+port+"/state", err)
			continue
		}
		physical, err := h.read(path.Join(port, "phys_state"))
		if err != nil {
			r.unknown(subjectOf(n), "/"+port+"/phys_state", err)
			continue
		}
		found := fmt.Sprintf("%s, %s", afterColon(state), afterColon(physical))
		ib := n.RDMA.LinkLayer != nil && *n.RDMA.LinkLayer == "InfiniBand"
		switch {
		case afterColon(physical) != "LinkUp":
			r.wrong(subjectOf(n), "/"+port+"/phys_state", found, "ACTIVE, LinkUp", "look at cable, optics and switch port; is the interface up?")
		case afterColon(state) != "ACTIVE" && ib:
			r.wrong(subjectOf(n), "/"+port+"/state", found, "ACTIVE, LinkUp", "a subnet manager must reach the port")
		case afterColon(state) != "ACTIVE":
			r.wrong(subjectOf(n), "/"+port+"/state", found, "ACTIVE, LinkUp", "ip link set the port's interface up")
		default:
			r.ok(subjectOf(n), "/"+port+"/state", found)
		}
	}
}

// afterColon is the name in "4: ACTIVE".
func afterColon(text string) string {
	if _, name, ok := strings.Cut(text, ":"); ok {
		return strings.TrimSpace(name)
	}
	return text
}

// rdmaNamespaces tells the mode, which nobody can call right or wrong without knowing
// what the pods want.
func rdmaNamespaces(h Host, r *report) {
	if len(h.rdmaNICs()) == 0 {
		return
	}
	const file = "sys/module/ib_core/parameters/netns_mode"
	mode, err := h.read(file)
	switch {
	case err != nil:
		r.unknown("", "/"+file, err)
	case mode == "Y":
		r.ok("", "/"+file, "shared: every network namespace sees every RDMA device")
	default:
		r.ok("", "/"+file, "exclusive: an RDMA device is seen in its own network namespace alone")
	}
}

// firmware wants like NICs to run like firmware.
func firmware(h Host, r *report) {
	versions := map[string]map[string][]string{} // by board and version: devices
	for _, n := range h.rdmaNICs() {
		dir := path.Join("sys/class/infiniband", n.RDMA.Name)
		board, err := h.read(path.Join(dir, "board_id"))
		if err != nil {
			continue // not every driver tells
		}
		v, err := h.read(path.Join(dir, "fw_ver"))
		if err != nil {
			r.unknown(subjectOf(n), "/"+path.Join(dir, "fw_ver"), err)
			continue
		}
		if versions[board] == nil {
			versions[board] = map[string][]string{}
		}
		versions[board][v] = append(versions[board][v], n.RDMA.Name)
	}
	for _, board := range slices.Sorted(maps.Keys(versions)) {
		var found []string
		for _, v := range slices.Sorted(maps.Keys(versions[board])) {
			found = append(found, fmt.Sprintf("%s on %s", v, strings.Join(versions[board][v], ", ")))
		}
		const source = "/sys/class/infiniband/*/fw_ver"
		if len(found) > 1 {
			r.wrong(board, source, strings.Join(found, "; "), "one version for all", "update the older ones (mlxfwmanager)")
			continue
		}
		r.ok(board, source, found[0])
	}
}
