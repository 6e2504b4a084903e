// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package configtest makes NetworkConfig documents for tests, valid and invalid
// ones, the same for the same seed. It knows what the documentation promises and
// nothing of the code that checks it. No program links it.
package configtest

import (
	"fmt"
	"math/rand/v2"
)

// Valid makes a document that decodes and validates.
func Valid(r *rand.Rand) map[string]any {
	g := generator{r}
	doc := map[string]any{}
	if iface := g.iface(); len(iface) > 0 {
		doc["interface"] = iface
	}
	if g.maybe() {
		doc["apiVersion"], doc["kind"] = "plumbline.dev/v1alpha1", "NetworkConfig"
	}
	g.set(doc, "profile", func() any { return g.pick("", "fast", "rail-optimized") })
	g.set(doc, "routes", g.routes)
	if iface, _ := doc["interface"].(map[string]any); iface["vrf"] == nil {
		g.set(doc, "rules", g.rules)
	}
	g.set(doc, "neighbors", g.neighbors)
	g.set(doc, "sysctls", func() any {
		// Values of their own would differ between the NICs of a pod.
		return map[string]any{"net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv6.conf.all.accept_ra": "0"}
	})
	g.set(doc, "ethtool", func() any {
		e := map[string]any{}
		g.set(e, "features", func() any { return map[string]any{"tso": g.maybe(), "tx-checksum-ip-generic": g.maybe()} })
		g.set(e, "privateFlags", func() any { return map[string]any{"enable-max-rx-buffer-size": g.maybe()} })
		return e
	})
	g.set(doc, "rdma", func() any {
		device := map[string]any{}
		g.set(device, "umad", func() any { return g.maybe() })
		g.set(device, "issm", func() any { return g.maybe() })
		return device
	})
	g.set(doc, "environment", func() any { return g.pick("none", "nccl") })
	g.set(doc, "container", func() any {
		c := map[string]any{}
		g.set(c, "mounts", g.mounts)
		g.set(c, "env", func() any {
			return map[string]any{"LD_LIBRARY_PATH": g.pick("", "/usr/local/nvidia/lib64:/usr/lib"), "_a1": "ä = b"}
		})
		return c
	})
	return doc
}

type generator struct{ r *rand.Rand }

func (g generator) maybe() bool { return g.r.IntN(2) == 0 }

func (g generator) pick(of ...string) string { return of[g.r.IntN(len(of))] }

// between is a number of the range, its ends more often than others.
func (g generator) between(low, high int64) int64 {
	switch g.r.IntN(4) {
	case 0:
		return low
	case 1:
		return high
	}
	return low + g.r.Int64N(high-low+1)
}

// set sets a field, or leaves it out.
func (g generator) set(object map[string]any, name string, value func() any) {
	if g.maybe() {
		object[name] = value()
	}
}

func (g generator) iface() map[string]any {
	i := map[string]any{}
	g.set(i, "name", func() any { return g.pick("dranet0", "net1", "a-b_c.d12345678", "0") })
	g.set(i, "mtu", func() any { return g.between(1280, 65535) })
	for _, name := range []string{"gsoMaxSize", "groMaxSize", "gsoIPv4MaxSize", "groIPv4MaxSize"} {
		g.set(i, name, func() any { return g.between(1, 524280) })
	}
	for _, name := range []string{"disableEbpfPrograms", "forwarding"} {
		g.set(i, name, func() any { return g.maybe() })
	}
	g.set(i, "arpIgnore", func() any { return []int{0, 1, 2, 3, 8}[g.r.IntN(5)] })
	g.set(i, "arpAnnounce", func() any { return g.between(0, 2) })
	g.set(i, "hardwareAddr", func() any { return g.pick("02:00:00:00:00:01", "be-ef-be-ef-be-ef", "0200.0000.0001") })
	g.set(i, "vrf", func() any {
		v := map[string]any{"name": g.pick("vrf0", "blue")}
		g.set(v, "table", func() any { return g.between(256, 1<<32-1) })
		return v
	})
	g.set(i, "vf", g.vf)
	g.kind(i)
	g.addressing(i)
	return i
}

func (g generator) vf() any {
	v := map[string]any{}
	if g.maybe() {
		v["vlan"] = g.between(1, 4094)
		g.set(v, "vlanQoS", func() any { return g.between(0, 7) })
	}
	g.set(v, "minTxRate", func() any { return g.between(0, 10000) })
	g.set(v, "maxTxRate", func() any { return g.between(10000, 400000) })
	g.set(v, "spoofCheck", func() any { return g.maybe() })
	g.set(v, "trust", func() any { return g.maybe() })
	return v
}

func (g generator) kind(i map[string]any) {
	switch kind := g.pick("", "passthrough", "macvlan", "ipvlan", "vlan"); kind {
	case "":
	case "vlan":
		i["type"], i["vlanID"] = kind, g.between(1, 4094)
	case "macvlan":
		i["type"] = kind
		g.set(i, "mode", func() any { return g.pick("bridge", "private", "vepa", "passthru") })
	case "ipvlan":
		i["type"] = kind
		delete(i, "hardwareAddr")
		g.set(i, "mode", func() any { return g.pick("l2", "l3", "l3s") })
	default:
		i["type"] = kind
	}
}

func (g generator) addressing(i map[string]any) {
	switch g.r.IntN(6) {
	case 0:
		i["dhcp"] = true
		g.set(i, "addressing", func() any { return "dhcp" })
	case 1:
		i["addressing"], i["addresses"] = "unnumbered", []any{}
	case 2:
		i["ipam"] = map[string]any{"pool": g.pick("fabric", "rail-0.example")}
	case 3:
		i["addressing"], i["dhcp"] = "static", false
	case 4:
		i["addresses"] = []any{fmt.Sprintf("10.0.0.%d/%d", g.between(1, 254), g.between(8, 32)), fmt.Sprintf("fd00::%x/64", g.between(1, 0xffff))}
	}
}

// families are what one element of a list is of: its addresses agree.
var families = []struct {
	prefix, other, address string
	// minMTU is the least packet in bytes.
	minMTU int64
}{
	{"10.%d.0.0/16", "192.168.0.0/16", "10.0.0.%d", 68},
	{"fd00:%x::/32", "fd99::/16", "fd00::%x", 1280},
}

// list makes up to three elements, each with a number of its own.
func (g generator) list(element func(n int) map[string]any) any {
	list := []any{}
	for n := range g.r.IntN(4) {
		list = append(list, element(n+1))
	}
	return list
}

func (g generator) routes() any {
	return g.list(func(n int) map[string]any {
		f := families[g.r.IntN(len(families))]
		route := map[string]any{"destination": fmt.Sprintf(f.prefix, n)}
		if g.maybe() {
			route["gateway"] = fmt.Sprintf(f.address, n)
			g.set(route, "scope", func() any { return 0 })
			g.set(route, "onlink", func() any { return g.maybe() })
		} else {
			route["scope"] = 253
		}
		g.set(route, "source", func() any { return fmt.Sprintf(f.address, n+100) })
		g.set(route, "table", func() any { return g.between(0, 1<<32-1) })
		g.set(route, "metric", func() any { return g.between(0, 1<<32-1) })
		g.set(route, "mtu", func() any { return g.between(f.minMTU, 65535) })
		return route
	})
}

func (g generator) rules() any {
	return g.list(func(n int) map[string]any {
		f := families[g.r.IntN(len(families))]
		rule := map[string]any{"table": g.between(1, 1<<32-1), "source": fmt.Sprintf(f.prefix, n)}
		g.set(rule, "destination", func() any { return f.other })
		g.set(rule, "priority", func() any { return g.between(0, 32767) })
		return rule
	})
}

func (g generator) neighbors() any {
	return g.list(func(n int) map[string]any {
		f := families[g.r.IntN(len(families))]
		return map[string]any{g.pick("ipAddress", "destination"): fmt.Sprintf(f.address, n), "hardwareAddr": "02:00:00:00:00:09"}
	})
}

func (g generator) mounts() any {
	return g.list(func(n int) map[string]any {
		return map[string]any{
			"hostPath":      g.pick("/home/kubernetes/bin/gib", "/opt", "/..a/b c"),
			"containerPath": fmt.Sprintf(g.pick("/usr/local/%d", "/run/%d", "/development/%d"), n),
		}
	})
}
