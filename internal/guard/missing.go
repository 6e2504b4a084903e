// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// Missing says which wanted NICs are not in the network namespace at path, a
// sentence each.
func Missing(path string, wants []Want) ([]string, error) {
	var missing []string
	var ids []nslink.Identity
	for _, w := range wants {
		if w.NIC != nil {
			ids = append(ids, w.NIC.identity())
		}
	}
	if len(ids) == 0 {
		return nil, nil // and no namespace to look into
	}
	links, err := linksAt(path, ids)
	if err != nil {
		return nil, err
	}
	for _, w := range wants {
		if w.NIC == nil {
			continue
		}
		id := w.NIC.identity()
		found, err := id.Find(links)
		switch {
		case err != nil:
			return nil, fmt.Errorf("device %s of claim %s: %w", w.Device, w.Claim, err)
		case found == nil:
			missing = append(missing, fmt.Sprintf("device %s of claim %s (%s) is not in the pod's network namespace", w.Device, w.Claim, id))
		}
	}
	return missing, nil
}

// linksAt lists those links of a namespace that could be one of some NICs: a pod
// may have made any number of others.
func linksAt(path string, ids []nslink.Identity) (links []rtnl.Link, err error) {
	ns, err := netns.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ns.Close()) }()
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.Limit(rtnl.PodEntries)
	return nslink.LinksOf(conn, ids...)
}

// misplaced says where a process may run that no device of its container lets
// it. proc is /proc; what is not asked for is not looked at.
func misplaced(proc fs.FS, pid int, wants []Want) ([]string, error) {
	cpus, mems, err := allowedBy(wants)
	if err != nil || cpus.IsEmpty() && mems.IsEmpty() {
		return nil, err
	}
	text, err := fs.ReadFile(proc, fmt.Sprintf("%d/status", pid))
	if err != nil {
		return nil, fmt.Errorf("look where the container may run: %w", err)
	}
	var wrong []string
	for _, set := range []struct {
		what, field string
		want        cpuset.CPUSet
	}{{"CPUs", "Cpus_allowed_list", cpus}, {"memory nodes", "Mems_allowed_list", mems}} {
		if set.want.IsEmpty() {
			continue
		}
		have, err := statusList(string(text), set.field)
		if err != nil {
			return nil, fmt.Errorf("look where the container may run: %d/status: %w", pid, err)
		}
		if !have.IsSubsetOf(set.want) {
			wrong = append(wrong, fmt.Sprintf("the container may use %s %s, and its claims give it %s", set.what, have, set.want))
		}
	}
	return wrong, nil
}

// allowedBy is what all devices of a container let it use together.
func allowedBy(wants []Want) (cpus, mems cpuset.CPUSet, err error) {
	for _, w := range wants {
		c, err := parseList(w.CPUs)
		if err != nil {
			return cpus, mems, err
		}
		m, err := parseList(w.Mems)
		if err != nil {
			return cpus, mems, err
		}
		cpus, mems = cpus.Union(c), mems.Union(m)
	}
	return cpus, mems, nil
}

// statusList reads one list of /proc/<pid>/status (proc_pid_status(5)).
func statusList(status, field string) (cpuset.CPUSet, error) {
	for line := range strings.Lines(status) {
		name, value, ok := strings.Cut(line, ":")
		if ok && name == field {
			set, err := parseList(strings.TrimSpace(value))
			if err != nil {
				return cpuset.CPUSet{}, fmt.Errorf("%s: %w", field, err)
			}
			return set, nil
		}
	}
	return cpuset.CPUSet{}, fmt.Errorf("no line %s", field)
}
