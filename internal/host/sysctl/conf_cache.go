// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysctl

import (
	"maps"
	"slices"
	"sync"
)

// listed are the settings that a link's message lists, all of IPv4's and most of
// IPv6's, by group (net/ipv4/devinet.c, inet_fill_link_af, of what
// devinet_sysctl names; net/ipv6/addrconf.c, ipv6_store_devconf, of what
// addrconf_sysctl names). A kernel may lack some of them; one that is not here, such as
// stable_secret, is read from its file each time.
var listed = map[string][]string{
	"ipv4/conf": {
		"accept_local", "accept_redirects", "accept_source_route", "arp_accept", "arp_announce",
		"arp_evict_nocarrier", "arp_filter", "arp_ignore", "arp_notify", "bc_forwarding", "bootp_relay",
		"disable_policy", "disable_xfrm", "drop_gratuitous_arp", "drop_unicast_in_l2_multicast",
		"force_igmp_version", "forwarding", "igmpv2_unsolicited_report_interval",
		"igmpv3_unsolicited_report_interval", "ignore_routes_with_linkdown", "log_martians", "medium_id",
		"promote_secondaries", "proxy_arp", "proxy_arp_pvlan", "route_localnet", "rp_filter",
		"secure_redirects", "send_redirects", "shared_media", "src_valid_mark", "tag",
	},
	"ipv6/conf": {
		"accept_dad", "accept_ra", "accept_ra_defrtr", "accept_ra_from_local", "accept_ra_min_hop_limit",
		"accept_ra_min_lft", "accept_ra_mtu", "accept_ra_pinfo", "accept_ra_rt_info_max_plen",
		"accept_ra_rt_info_min_plen", "accept_ra_rtr_pref", "accept_redirects", "accept_source_route",
		"accept_untracked_na", "addr_gen_mode", "autoconf", "dad_transmits", "disable_ipv6",
		"disable_policy", "drop_unicast_in_l2_multicast", "drop_unsolicited_na", "enhanced_dad",
		"force_forwarding", "force_mld_version", "force_tllao", "forwarding", "hop_limit",
		"ignore_routes_with_linkdown", "ioam6_enabled", "ioam6_id", "ioam6_id_wide", "keep_addr_on_down",
		"max_addresses", "max_desync_factor", "mldv1_unsolicited_report_interval",
		"mldv2_unsolicited_report_interval", "mtu", "ndisc_evict_nocarrier", "ndisc_notify",
		"ndisc_tclass", "optimistic_dad", "proxy_ndp", "ra_defrtr_metric", "regen_max_retry",
		"router_probe_interval", "router_solicitation_delay", "router_solicitation_interval",
		"router_solicitation_max_interval", "router_solicitations", "rpl_seg_enabled", "seg6_enabled",
		"seg6_require_hmac", "suppress_frag_ndisc", "temp_prefered_lft", "temp_valid_lft", //nolint:misspell // the kernel's
		"use_oif_addrs_only", "use_optimistic", "use_tempaddr",
	},
}

func isListed(key string) bool {
	group, name, _ := cutLast(key)
	return slices.Contains(listed[group], name)
}

// maxCachedConfs bounds the cache: a node has fewer kinds of NIC.
const maxCachedConfs = 64

// confCache has the listed settings by digest. Their values are the same for all
// interfaces with that digest.
type confCache struct {
	mu       sync.Mutex
	byDigest map[string]Settings
	digests  []string // oldest first
}

// of returns the settings of a digest, which the caller must not change; nil when they
// are not cached.
func (c *confCache) of(digest string) Settings {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byDigest[digest]
}

func (c *confCache) add(digest string, conf Settings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byDigest[digest] != nil {
		return
	}
	if len(c.digests) == maxCachedConfs {
		delete(c.byDigest, c.digests[0])
		c.digests = c.digests[1:]
	}
	if c.byDigest == nil {
		c.byDigest = map[string]Settings{}
	}
	c.byDigest[digest] = conf
	c.digests = append(c.digests, digest)
}

// remember caches what was read under a digest if the link still has that digest, and
// the files read the same once more: a wrong value would be restored on every NIC with
// the digest. The digest alone is not enough, since a setting may change after the
// digest was read and change back before it is read again, as with tools that switch
// something off for a moment.
func (n Net) remember(ifname, digest string, now func() (string, error), read Settings) error {
	still, err := now()
	if err != nil || still != digest {
		return err
	}
	before := maps.Clone(read)
	maps.DeleteFunc(before, func(key, _ string) bool { return !isListed(key) })
	after, whole, err := n.read(ifname, func(s setting) bool { return s.listed })
	if err == nil && whole && maps.Equal(before, after) {
		n.confCache.add(digest, after)
	}
	return err
}
