// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/model"
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
// subnet manager. One of Ethernet follows its interface, which may be spare.
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
		case !ib && spare(n) && afterColon(state) != "ACTIVE":
			r.ok(subjectOf(n), "/"+port+"/state", found+": "+whySpare)
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
		if errors.Is(err, fs.ErrNotExist) {
			continue // not every driver tells
		}
		if err != nil {
			r.unknown(subjectOf(n), "/"+path.Join(dir, "board_id"), err)
			continue
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

// podGroups are the control groups that kubelet makes for pods, by both drivers, and as
// kind nests them, below the root of a hierarchy.
var podGroups = []string{
	"kubepods.slice", "kubepods.slice/kubepods-burstable.slice", "kubepods.slice/kubepods-besteffort.slice",
	"kubelet.slice/kubelet-kubepods.slice", "kubepods", "kubepods/burstable", "kubepods/besteffort",
}

// rdmaLimit wants no limit of RDMA resources on all pods together: kubelet sets none, and
// a program that meets one is told that there is no memory.
func rdmaLimit(h Host, r *report) {
	nics := h.rdmaNICs()
	if len(nics) == 0 {
		return
	}
	source := ""
	for _, hierarchy := range []string{"sys/fs/cgroup", "sys/fs/cgroup/rdma"} { // version 2, and version 1
		for _, group := range podGroups {
			dir := path.Join(hierarchy, group)
			if there, err := h.exists(dir); err != nil {
				r.unknown("", "/"+dir, err)
				return
			} else if !there {
				continue
			}
			source = cmp.Or(source, "/"+dir)
			limits, err := h.rdmaLimits(path.Join(dir, "rdma.max"))
			if err != nil {
				r.unknown("", "/"+dir+"/rdma.max", err)
				return
			}
			for _, n := range nics {
				if limit := limits[n.RDMA.Name]; limit != "" {
					r.wrong(subjectOf(n), "/"+dir+"/rdma.max", limit, "hca_handle=max hca_object=max",
						"echo DEVICE hca_handle=max hca_object=max > rdma.max there; and look for who set it")
				}
			}
		}
	}
	if source != "" && len(r.findings) == 0 {
		r.ok("", source, "no limit of RDMA")
	}
}

// rdmaLimits are the limits of a control group by RDMA device, none where the controller
// is not on.
func (h Host) rdmaLimits(file string) (map[string]string, error) {
	text, err := h.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	limits := map[string]string{}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var limited []string
		for word := range strings.FieldsSeq(rest) {
			if !strings.HasSuffix(word, "=max") {
				limited = append(limited, word)
			}
		}
		limits[name] = strings.Join(limited, " ")
	}
	return limits, err
}

// gid wants an active port of RoCE to have a GID of version 2 for each IPv4 address of its
// interface: without it nobody connects from that address.
func gid(h Host, r *report) {
	for _, n := range h.rdmaNICs() {
		if n.Interface == nil || n.RDMA.LinkLayer == nil || *n.RDMA.LinkLayer != "Ethernet" {
			continue
		}
		dir := path.Join("sys/class/infiniband", n.RDMA.Name)
		if state, err := h.read(path.Join(dir, "ports/1/state")); err != nil || afterColon(state) != "ACTIVE" {
			continue // rdma-ports says so
		}
		kind, err := h.read(path.Join(dir, "node_type"))
		switch {
		case err != nil:
			r.unknown(subjectOf(n), "/"+dir+"/node_type", err)
			continue
		case afterColon(kind) != "CA":
			continue // iWARP has no GIDs of addresses
		}
		for _, a := range n.Interface.Addresses {
			if a.Addr().Is4() {
				h.gidOf(n, a.Addr(), path.Join(dir, "ports/1"), r)
			}
		}
	}
}

func (h Host) gidOf(n model.NIC, address netip.Addr, port string, r *report) {
	entries, err := fs.ReadDir(h.Files, path.Join(port, "gids"))
	if err != nil {
		r.unknown(subjectOf(n), "/"+port+"/gids", err)
		return
	}
	for _, e := range entries {
		// An empty index reads as zeros, or as an error (EINVAL).
		text, err := h.read(path.Join(port, "gids", e.Name()))
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			r.unknown(subjectOf(n), "/"+port+"/gids/"+e.Name(), err)
			return
		}
		if own, err := netip.ParseAddr(text); err != nil || own.Unmap() != address {
			continue
		}
		kind, kindErr := h.read(path.Join(port, "gid_attrs/types", e.Name()))
		device, deviceErr := h.read(path.Join(port, "gid_attrs/ndevs", e.Name()))
		if kindErr == nil && deviceErr == nil && kind == "RoCE v2" && device == n.Interface.Name {
			r.ok(subjectOf(n), "/"+port+"/gids/"+e.Name(), "RoCE v2 GID of "+address.String())
			return
		}
	}
	r.wrong(subjectOf(n), "/"+port+"/gids", "no RoCE v2 GID of "+address.String(), "one", "ip link set INTERFACE down, and up again; and look into the kernel's log")
}

// Counters of errors of a port, those of its link and those of packets on their way.
var (
	linkErrors   = []string{"counters/symbol_error", "counters/link_error_recovery", "counters/link_downed", "counters/port_rcv_errors"}
	packetErrors = []string{
		"counters/port_xmit_discards", "hw_counters/out_of_sequence", "hw_counters/packet_seq_err", "hw_counters/local_ack_timeout_err",
	}
)

// portErrors tells of errors that RDMA ports have counted since their driver was loaded:
// those of a link are wrong. Those of packets are told and not judged, since every fabric
// that was ever congested has some, and only their growth would say more.
func portErrors(h Host, r *report) {
	for _, n := range h.rdmaNICs() {
		port := path.Join("sys/class/infiniband", n.RDMA.Name, "ports/1")
		link, there, err := h.counted(port, linkErrors)
		var packets []string
		if err == nil {
			// Firmware that lets nobody read the first makes the kernel log each try.
			var more bool
			packets, more, err = h.counted(port, packetErrors)
			there = there || more
		}
		source := "/" + port + "/{counters,hw_counters}"
		found := strings.Join(slices.Concat(link, packets), ", ") + " since the driver was loaded"
		switch {
		case err != nil:
			r.unknown(subjectOf(n), source, err)
		case len(link) > 0:
			r.wrong(subjectOf(n), source, found, "none of the link", "look at cable, optics and switch port")
		case len(packets) > 0:
			r.ok(subjectOf(n), source, found)
		case there:
			r.ok(subjectOf(n), source, "none")
		}
	}
}

// counted are the counters below a folder that are not zero, with their values; there says
// whether the driver has any of them.
func (h Host) counted(dir string, names []string) (all []string, there bool, err error) {
	for _, name := range names {
		text, err := h.read(path.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", name, err)
		}
		there = true
		if n > 0 {
			all = append(all, fmt.Sprintf("%s %d", path.Base(name), n))
		}
	}
	return all, there, nil
}
