// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/internal/suggest"
)

// Bounds of sysctls.
const (
	maxSysctls     = 64
	maxSysctlValue = 256
)

// podSysctls are the sysctls that belong to a network namespace, less those that
// are secret (tcp_fastopen_key), that are read-only, or that let a pod use kernel
// memory which is not charged to its cgroup (ipfrag_*, route caches). On a kernel where
// one of them is still of the whole node, it does not exist in a pod's namespace, but
// only in the first (net/core/sysctl_net_core.c, netns_core_table;
// net/ipv4/sysctl_net_ipv4.c, ipv4_net_table; net/ipv6/sysctl_net_ipv6.c,
// ipv6_table_template). Those of conf and neigh, which each interface has, go by
// interfaceSysctl.
var podSysctls = map[string][]string{
	"net.core": {"optmem_max", "somaxconn", "txrehash"},
	"net.unix": {"max_dgram_qlen"},
	"net.ipv4": {
		"fib_multipath_hash_fields", "fib_multipath_hash_policy", "fib_multipath_use_neigh", "fwmark_reflect",
		"icmp_echo_enable_probe", "icmp_echo_ignore_all", "icmp_echo_ignore_broadcasts", "icmp_errors_use_inbound_ifaddr",
		"icmp_ignore_bogus_error_responses", "icmp_ratelimit", "icmp_ratemask",
		"igmp_link_local_mcast_reports", "igmp_qrv",
		"ip_autobind_reuse", "ip_default_ttl", "ip_dynaddr", "ip_early_demux", "ip_forward", "ip_forward_update_priority",
		"ip_forward_use_pmtu", "ip_local_port_range", "ip_local_reserved_ports", "ip_no_pmtu_disc", "ip_nonlocal_bind",
		"ip_unprivileged_port_start", "ping_group_range", "raw_l3mdev_accept",
		"tcp_abort_on_overflow", "tcp_adv_win_scale", "tcp_app_win", "tcp_autocorking", "tcp_backlog_ack_defer",
		"tcp_base_mss", "tcp_challenge_ack_limit", "tcp_comp_sack_delay_ns", "tcp_comp_sack_nr", "tcp_comp_sack_slack_ns",
		"tcp_congestion_control", "tcp_dsack", "tcp_early_demux", "tcp_early_retrans", "tcp_ecn", "tcp_ecn_fallback",
		"tcp_fack", "tcp_fastopen", "tcp_fastopen_blackhole_timeout_sec", "tcp_fin_timeout", "tcp_frto",
		"tcp_fwmark_accept", "tcp_invalid_ratelimit", "tcp_keepalive_intvl", "tcp_keepalive_probes", "tcp_keepalive_time",
		"tcp_l3mdev_accept", "tcp_limit_output_bytes", "tcp_max_reordering", "tcp_max_syn_backlog", "tcp_max_tw_buckets",
		"tcp_migrate_req", "tcp_min_rtt_wlen", "tcp_min_snd_mss", "tcp_min_tso_segs", "tcp_moderate_rcvbuf",
		"tcp_mtu_probe_floor", "tcp_mtu_probing", "tcp_no_metrics_save", "tcp_no_ssthresh_metrics_save",
		"tcp_notsent_lowat", "tcp_orphan_retries", "tcp_pacing_ca_ratio", "tcp_pacing_ss_ratio", "tcp_pingpong_thresh",
		"tcp_plb_cong_thresh", "tcp_plb_enabled", "tcp_plb_idle_rehash_rounds", "tcp_plb_rehash_rounds",
		"tcp_plb_suspend_rto_sec", "tcp_probe_interval", "tcp_probe_threshold", "tcp_recovery", "tcp_reflect_tos",
		"tcp_reordering", "tcp_retrans_collapse", "tcp_retries1", "tcp_retries2", "tcp_rfc1337", "tcp_rmem",
		"tcp_rto_max_ms", "tcp_rto_min_us", "tcp_sack", "tcp_shrink_window", "tcp_slow_start_after_idle", "tcp_stdurg",
		"tcp_syn_linear_timeouts", "tcp_syn_retries", "tcp_synack_retries", "tcp_syncookies", "tcp_thin_linear_timeouts",
		"tcp_timestamps", "tcp_tso_rtt_log", "tcp_tso_win_divisor", "tcp_tw_reuse", "tcp_tw_reuse_delay",
		"tcp_window_scaling", "tcp_wmem", "tcp_workaround_signed_windows",
		"udp_early_demux", "udp_l3mdev_accept", "udp_rmem_min", "udp_wmem_min",
	},
	"net.ipv6": {
		"anycast_src_echo_reply", "auto_flowlabels", "bindv6only", "fib_multipath_hash_fields", "fib_multipath_hash_policy",
		"flowlabel_consistency", "flowlabel_reflect", "flowlabel_state_ranges", "fwmark_reflect", "idgen_delay",
		"idgen_retries", "ip_nonlocal_bind",
	},
}

// PodSysctls are the names that sysctls may have, sorted, less those of conf and
// neigh.
func PodSysctls() []string {
	var all []string
	for directory, names := range podSysctls {
		for _, name := range names {
			all = append(all, directory+"."+name)
		}
	}
	slices.Sort(all)
	return all
}

// interfaceSysctl is a sysctl of one interface, or of all. The interface's name must
// have no dot, where it would end. neigh has no "all", and its "default" is the whole
// node's. stable_secret is refused: addresses derive from it, and claims are no secrets.
var interfaceSysctl = regexp.MustCompile(`^net\.ipv[46]\.(conf|neigh)\.([A-Za-z0-9_-]{1,15})\.([a-z0-9_]{1,63})$`)

var (
	sysctlForm = regexp.MustCompile(`^[a-z0-9_]+(\.[A-Za-z0-9_-]+)+$`)
	// sysctlValue is numbers or words with one space between.
	sysctlValue = regexp.MustCompile(`^[!-~]+( [!-~]+)*$`)
)

// maxSysctlName is more than the longest name has.
const maxSysctlName = 128

// InterfaceOfSysctl is the interface, "all" or "default", that a sysctl is of, and
// its key below the interface, such as ipv4/conf/arp_ignore. Not ok where it is of
// the whole namespace.
func InterfaceOfSysctl(name string) (ifname, key string, ok bool) {
	m := interfaceSysctl.FindStringSubmatch(name)
	if m == nil {
		return "", "", false
	}
	family := strings.Split(name, ".")[1]
	return m[2], family + "/" + m[1] + "/" + m[3], true
}

func checkSysctls(p *field.Path, sysctls map[string]string) field.ErrorList {
	if len(sysctls) > maxSysctls {
		return field.ErrorList{field.TooMany(p, len(sysctls), maxSysctls)}
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(sysctls)) {
		at := p.Key(name)
		if why := whyNoSysctl(name); why != "" {
			errs = append(errs, field.Forbidden(at, why))
		}
		if v := sysctls[name]; len(v) > maxSysctlValue || !sysctlValue.MatchString(v) {
			errs = append(errs, field.Invalid(at, v, fmt.Sprintf(
				"want 1-%d visible ASCII characters, and one space between numbers, such as \"4096 131072 6291456\"", maxSysctlValue)))
		}
	}
	return errs
}

// whyNoSysctl says why a claim cannot set a sysctl; empty where it can.
func whyNoSysctl(name string) string {
	const ofPod = "a claim may only set what belongs to the pod's network namespace"
	directory, last := "", name
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		directory, last = name[:i], name[i+1:]
	}
	ifname, key, ofInterface := InterfaceOfSysctl(name)
	switch {
	case len(name) > maxSysctlName || !sysctlForm.MatchString(name):
		return "want a sysctl's name, such as net.ipv4.tcp_rmem: letters, digits, '-' and '_', and dots between"
	case slices.Contains(podSysctls[directory], last):
		return ""
	case ofInterface && strings.Contains(key, "/neigh/") && (ifname == "all" || ifname == "default"), ofNode(name, directory):
		return "is of the whole node; " + ofPod
	case last == "stable_secret" || last == "tcp_fastopen_key":
		return "is a secret: want it set where no claim shows it"
	case ofInterface:
		return ""
	case !strings.HasPrefix(name, "net."):
		return "is not of the network; " + ofPod
	}
	if meant := suggest.Closest(name, PodSysctls()); meant != "" {
		return "a claim may not set it: did you mean " + meant + "?"
	}
	return "a claim may not set it: want one of those that docs/network.md lists"
}

// nodeSysctls are of the whole node although their directory has a namespace's
// (net/ipv4/sysctl_net_ipv4.c, ipv4_table; net/ipv4/inetpeer.c). The list is for a
// better message only: what podSysctls lacks is refused in any case.
var nodeSysctls = []string{
	"cipso_cache_bucket_size", "cipso_cache_enable", "cipso_rbm_optfmt", "cipso_rbm_strictvalid", "inet_peer_maxttl",
	"inet_peer_minttl", "inet_peer_threshold", "ipfrag_secret_interval", "tcp_allowed_congestion_control",
	"tcp_available_congestion_control", "tcp_available_ulp", "tcp_low_latency", "tcp_max_orphans", "tcp_mem",
	"udp_mem",
}

// ofNode tells whether a sysctl is of the whole node. So are all of net.core that
// podSysctls lacks, or they steer the node's CPUs.
func ofNode(name, directory string) bool {
	switch first, _, _ := strings.Cut(name, "."); first {
	case "vm", "fs", "dev", "debug", "kernel":
		return first != "kernel" && !strings.HasPrefix(name, "fs.mqueue.")
	}
	return directory == "net.core" || directory == "net.ipv4" && slices.Contains(nodeSysctls, strings.TrimPrefix(name, "net.ipv4."))
}
