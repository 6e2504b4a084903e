// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/api/v1alpha1"
)

func sysctl(name, value string) *v1alpha1.NetworkConfig {
	return &v1alpha1.NetworkConfig{Sysctls: map[string]string{name: value}}
}

func TestSysctlNames(t *testing.T) {
	const (
		ofNode    = "is of the whole node; a claim may only set what belongs to the pod's network namespace"
		noNetwork = "is not of the network; a claim may only set what belongs to the pod's network namespace"
		noName    = "want a sysctl's name, such as net.ipv4.tcp_rmem"
		secret    = "is a secret"
	)
	for name, want := range map[string]string{
		"net.ipv4.tcp_rto_min_us":                 "",
		"net.ipv4.tcp_no_metrics_save":            "",
		"net.ipv4.tcp_slow_start_after_idle":      "",
		"net.core.optmem_max":                     "",
		"net.ipv4.tcp_rmem":                       "",
		"net.core.somaxconn":                      "",
		"net.unix.max_dgram_qlen":                 "",
		"net.ipv4.conf.all.rp_filter":             "",
		"net.ipv6.conf.default.accept_ra":         "",
		"net.ipv4.conf.net1.arp_notify":           "",
		"net.ipv6.neigh.a-b_C.gc_stale_time":      "",
		"net.core.rmem_max":                       ofNode,
		"net.core.wmem_max":                       ofNode,
		"net.core.rmem_default":                   ofNode,
		"net.core.netdev_max_backlog":             ofNode,
		"net.core.default_qdisc":                  ofNode,
		"net.core.bpf_jit_enable":                 ofNode,
		"net.ipv4.tcp_mem":                        ofNode,
		"net.ipv4.tcp_allowed_congestion_control": ofNode,
		"net.ipv4.neigh.default.gc_thresh3":       ofNode,
		"net.ipv6.neigh.default.gc_thresh3":       ofNode,
		"vm.overcommit_memory":                    ofNode,
		"fs.file-max":                             ofNode,
		"kernel.core_pattern":                     noNetwork,
		"kernel.shmmax":                           noNetwork,
		"fs.mqueue.msg_max":                       noNetwork,
		"net.ipv4.tcp_fastopen_key":               secret,
		"net.ipv6.conf.all.stable_secret":         secret,
		"net.ipv4.tcp_rmen":                       "did you mean net.ipv4.tcp_rmem?",
		"net.netfilter.nf_conntrack_max":          "a claim may not set it: want one of those that docs/network.md lists",
		"net.ipv4.ipfrag_high_thresh":             "a claim may not set it",
		"net.ipv4.conf.eth0.100.rp_filter":        "a claim may not set it",
		"":                                        noName,
		"tcp_rmem":                                noName,
		"net/ipv4/tcp_rmem":                       noName,
		"net.ipv4.conf.a/b.rp_filter":             noName,
		"net.ipv4.conf....rp_filter":              noName,
		"net.ipv4.conf.all.../../core/rmem_max":   noName,
		"net..ipv4.tcp_rmem":                      noName,
		"net.ipv4.tcp_rmem\n":                     noName,
		"net.ipv4.tcp rmem":                       noName,
		"net.ipv4." + strings.Repeat("a", 128):    noName,
	} {
		err := sysctl(name, "1").Validate()
		if (err == nil) != (want == "") {
			t.Errorf("%q: %v, want %q", name, err, want)
			continue
		}
		if err != nil && (!strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "sysctls["+name+"]: ")) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	for _, name := range v1alpha1.PodSysctls() {
		if err := sysctl(name, "1").Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestSysctlValues(t *testing.T) {
	for value, ok := range map[string]bool{
		"0": true, "-1": true, "4096 131072 6291456": true, "cubic": true, "1024-65535,7": true, strings.Repeat("9", 256): true,
		"": false, " 1": false, "1 ": false, "1  2": false, "1\t2": false, "1\n2": false, "1\x00": false, "\u00e9": false, strings.Repeat("9", 257): false,
	} {
		if err := sysctl("net.ipv4.tcp_rmem", value).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", value, err)
		}
	}
	many := &v1alpha1.NetworkConfig{Sysctls: map[string]string{}}
	for i := range 65 {
		many.Sysctls[fmt.Sprintf("net.ipv4.conf.net%d.rp_filter", i)] = "1"
	}
	if err := many.Validate(); err == nil || !strings.Contains(err.Error(), "sysctls: Too many: 65: must have at most 64 items") {
		t.Error(err)
	}
	delete(many.Sysctls, "net.ipv4.conf.net0.rp_filter")
	if err := many.Validate(); err != nil {
		t.Error(err)
	}
}

// The claim lies over the class by name, and neither is changed.
func TestSysctlsMergeByName(t *testing.T) {
	class := decode(t, `{"sysctls": {"net.ipv4.tcp_sack": "0", "net.core.somaxconn": "1"}}`)
	claim := decode(t, `{"sysctls": {"net.core.somaxconn": "2", "net.ipv4.tcp_ecn": "1"}}`)
	merged, origins := v1alpha1.EffectiveNetworkConfig(v1alpha1.Layer{Source: "class", Config: class}, v1alpha1.Layer{Source: "claim", Config: claim})
	want := map[string]string{"net.ipv4.tcp_sack": "0", "net.core.somaxconn": "2", "net.ipv4.tcp_ecn": "1"}
	if diff := cmp.Diff(want, merged.Sysctls); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for name, source := range map[string]string{"net.ipv4.tcp_sack": "class", "net.core.somaxconn": "claim", "net.ipv4.tcp_ecn": "claim"} {
		if got := origins["sysctls["+name+"]"]; got != source {
			t.Errorf("%s is of the %q, want %q", name, got, source)
		}
	}
	if len(class.Sysctls) != 2 || class.Sysctls["net.core.somaxconn"] != "1" {
		t.Errorf("the class has changed: %v", class.Sysctls)
	}
}
