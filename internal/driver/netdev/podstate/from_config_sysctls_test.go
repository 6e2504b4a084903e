// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/sysctl"
)

func stateOf(text string) (*State, error) {
	c, err := v1alpha1.DecodeNetworkConfig([]byte(text))
	if err != nil {
		return nil, err
	}
	return From(c, &hoststate.HostNIC{State: hoststate.State{Name: "nic0"}}, nil, nil)
}

func TestSysctlsOfInterfaceAndNamespace(t *testing.T) {
	s, err := stateOf(`{"interface": {"name": "net1", "arpIgnore": 1}, "sysctls": {
		"net.ipv4.conf.net1.arp_ignore": "1", "net.ipv6.conf.net1.accept_ra": "0", "net.ipv4.neigh.net1.gc_stale_time": "9",
		"net.ipv4.ip_forward": "1", "net.ipv4.conf.all.forwarding": "1", "net.ipv4.conf.default.arp_notify": "1", "net.ipv4.tcp_sack": "0"}}`)
	if err != nil {
		t.Fatal(err)
	}
	own := sysctl.Settings{"ipv4/conf/arp_ignore": "1", "ipv6/conf/accept_ra": "0", "ipv4/neigh/gc_stale_time": "9"}
	pods := map[string]string{"net.ipv4.conf.all.forwarding": "1", "net.ipv4.conf.default.arp_notify": "1", "net.ipv4.tcp_sack": "0"}
	if !maps.Equal(s.Sysctls, own) || !maps.Equal(s.PodSysctls, pods) {
		t.Errorf("the interface's are %v, the pod's %v", s.Sysctls, s.PodSysctls)
	}
	for text, want := range map[string]string{
		`{"sysctls": {"net.ipv4.conf.eth0.rp_filter": "1"}}`:                                     "sysctls[net.ipv4.conf.eth0.rp_filter]: is of interface eth0: want the claim's own, nic0, or all or default of conf",
		`{"interface": {"arpAnnounce": 2}, "sysctls": {"net.ipv4.conf.nic0.arp_announce": "1"}}`: `sysctls[net.ipv4.conf.nic0.arp_announce]: "1": another field of interface says "2": want one of them`,
		`{"interface": {"forwarding": true}, "sysctls": {"net.ipv6.conf.nic0.forwarding": "0"}}`: "sysctls[net.ipv6.conf.nic0.forwarding]: interface.forwarding says it: want one of them",
		`{"sysctls": {"net.ipv4.ip_forward": "1", "net.ipv4.conf.all.forwarding": "0"}}`:         `sysctls[net.ipv4.ip_forward]: "1": net.ipv4.conf.all.forwarding is "0": want the same`,
	} {
		if _, err := stateOf(text); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

// What a claim may set is, on this kernel, writable in a new namespace and of that
// namespace alone: neither another one nor this process's own sees the change.
func TestAllowedSysctlsAreTheNamespacesOwn(t *testing.T) {
	pod, other := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	changed, lacking := 0, 0
	for _, name := range append(v1alpha1.PodSysctls(), confSysctls(t, pod)...) {
		path := filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
		var info os.FileInfo
		pod.Do(t, func() (err error) {
			info, err = os.Stat(path)
			if os.IsNotExist(err) {
				return nil
			}
			return err
		})
		if info == nil {
			lacking++
			continue
		}
		if info.Mode().Perm()&0o200 == 0 {
			t.Errorf("%s cannot be written in a namespace: %s", name, info.Mode())
			continue
		}
		host, beside := contents(path), inside(t, other, path)
		if change(t, pod, path) {
			changed++
		}
		if now := contents(path); now != host {
			t.Errorf("%s of this process's namespace was %q, and is %q: it is not the pod's alone", name, host, now)
		}
		if now := inside(t, other, path); now != beside {
			t.Errorf("%s of another namespace was %q, and is %q: it is not the pod's alone", name, beside, now)
		}
	}
	t.Logf("changed %d; this kernel lacks %d", changed, lacking)
	if all := len(v1alpha1.PodSysctls()); changed < all/2 {
		t.Errorf("changed %d of %d, want half of them at least", changed, all)
	}
}

// confSysctls are those of all interfaces and of those to come.
func confSysctls(t *testing.T, ns *hosttest.Namespace) []string {
	t.Helper()
	var names []string
	ns.Do(t, func() error {
		for _, family := range []string{"ipv4", "ipv6"} {
			for _, of := range []string{"all", "default"} {
				files, err := os.ReadDir(filepath.Join("/proc/sys/net", family, "conf", of))
				if err != nil {
					return nil //nolint:nilerr // no IPv6 here
				}
				for _, f := range files {
					name := fmt.Sprintf("net.%s.conf.%s.%s", family, of, f.Name())
					info, err := f.Info()
					if err == nil && info.Mode().Perm()&0o200 != 0 && f.Name() != "stable_secret" {
						names = append(names, name)
					}
				}
			}
		}
		return nil
	})
	return names
}

func contents(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func inside(t *testing.T, ns *hosttest.Namespace, path string) string {
	t.Helper()
	var text string
	ns.Do(t, func() error {
		text = contents(path)
		return nil
	})
	return text
}

// change gives a sysctl another value, if the kernel takes one of those that come
// to mind.
func change(t *testing.T, ns *hosttest.Namespace, path string) bool {
	t.Helper()
	before := inside(t, ns, path)
	for _, value := range others(before) {
		ns.Do(t, func() error {
			_ = os.WriteFile(path, []byte(value), 0)
			return nil
		})
		if inside(t, ns, path) != before {
			return true
		}
	}
	return false
}

// others are values beside the one that is there: the last number one more or less,
// or a small one.
func others(text string) []string {
	words := strings.Fields(text)
	if len(words) == 0 {
		return []string{"9999"}
	}
	var all []string
	last := len(words) - 1
	n, err := strconv.Atoi(words[last])
	if err != nil {
		return []string{"1", "reno", "cubic"}
	}
	for _, value := range []int{n + 1, n - 1, 0, 1, 2} {
		words[last] = strconv.Itoa(value)
		all = append(all, strings.Join(words, " "))
	}
	return all
}
