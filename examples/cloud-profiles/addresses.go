// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// profile is how the addresses of pods follow from those of their host.
type profile struct {
	// Hosts is the network of the hosts' own addresses, and Pods a wider one for those of
	// pods: each host has as many there as it is wider. Of 10.224.0.0/12 and 10.128.0.0/10
	// that is four: the host 10.224.3.7 has 10.128.12.28 to 10.128.12.31.
	Hosts netip.Prefix `json:"hosts"`
	Pods  netip.Prefix `json:"pods"`
	// Secondary takes the NIC's secondary addresses, which its cloud knows, in place of both.
	Secondary bool `json:"secondary"`
}

// readProfiles reads what each profile stands for, by the names that claims give.
func readProfiles(text []byte) (map[string]profile, error) {
	var profiles map[string]profile
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&profiles); err != nil {
		return nil, err
	}
	for name, p := range profiles {
		if err := p.validate(); err != nil {
			return nil, fmt.Errorf("profile %q: %w", name, err)
		}
	}
	return profiles, nil
}

func (p profile) validate() error {
	switch {
	case p.Secondary && (p.Hosts.IsValid() || p.Pods.IsValid()):
		return errors.New("secondary: cannot be set beside hosts and pods")
	case p.Secondary:
		return nil
	}
	for field, network := range map[string]netip.Prefix{"hosts": p.Hosts, "pods": p.Pods} {
		if !network.IsValid() || !network.Addr().Is4() || network != network.Masked() {
			return fmt.Errorf("%s: %s: want an IPv4 network such as 10.224.0.0/12", field, network)
		}
	}
	const mostBits = 8 // 256 addresses for each host, more than a NIC has ipvlans
	if wider := p.Hosts.Bits() - p.Pods.Bits(); wider < 1 || wider > mostBits || p.Hosts.Overlaps(p.Pods) {
		return fmt.Errorf("pods: %s: want a network wider than hosts, %s, by 1 to %d bits, and one beside it", p.Pods, p.Hosts, mostBits)
	}
	return nil
}

// candidates are the addresses that pods may have of one host's NIC.
func (p profile) candidates(host []netip.Prefix) ([]netip.Prefix, error) {
	for _, h := range host {
		if !p.Hosts.Contains(h.Addr()) {
			continue
		}
		wider := p.Hosts.Bits() - p.Pods.Bits()
		offset := (number(h.Addr()) - number(p.Hosts.Addr())) << wider
		all := make([]netip.Prefix, 1<<wider)
		for i := range all {
			var bytes [4]byte
			binary.BigEndian.PutUint32(bytes[:], number(p.Pods.Addr())+offset+uint32(i))
			all[i] = netip.PrefixFrom(netip.AddrFrom4(bytes), p.Pods.Bits())
		}
		return all, nil
	}
	return nil, fmt.Errorf("the host has %v there, and none of %s", host, p.Hosts)
}

func number(a netip.Addr) uint32 {
	bytes := a.As4()
	return binary.BigEndian.Uint32(bytes[:])
}

// hostAddresses are the IPv4 addresses of an interface of this host, in whose network
// namespace the server runs.
func hostAddresses(name string) ([]netip.Prefix, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %q: %w", name, err)
	}
	addresses, err := link.Addrs()
	if err != nil {
		return nil, fmt.Errorf("interface %q: %w", name, err)
	}
	var all []netip.Prefix
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Is4() {
			all = append(all, prefix)
		}
	}
	return all, nil
}

// secondaryAddresses asks the metadata service of an ECS instance: the cloud carries the
// packets of those addresses to the NIC, and the host has none of them on it.
func secondaryAddresses(metadata string) func(ctx context.Context, mac string) ([]netip.Prefix, error) {
	return func(ctx context.Context, mac string) ([]netip.Prefix, error) {
		parsed, err := net.ParseMAC(mac)
		if err != nil {
			return nil, err
		}
		token, err := fetch(ctx, http.MethodPut, metadata+"/latest/api/token", "X-aliyun-ecs-metadata-token-ttl-seconds", "60")
		if err != nil {
			return nil, err
		}
		entry := func(name string) (string, error) {
			return fetch(ctx, http.MethodGet, metadata+"/latest/meta-data/network/interfaces/macs/"+parsed.String()+"/"+name,
				"X-aliyun-ecs-metadata-token", token)
		}
		primary, err1 := entry("primary-ip-address")
		all, err2 := entry("private-ipv4s")
		network, err3 := entry("vswitch-cidr-block")
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		return secondaryOf(primary, all, network)
	}
}

// secondaryOf reads the entries of one NIC: its first address, all of them as a JSON array,
// and their network.
func secondaryOf(primary, all, network string) ([]netip.Prefix, error) {
	within, err := netip.ParsePrefix(network)
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	if err := json.Unmarshal([]byte(all), &addresses); err != nil {
		return nil, fmt.Errorf("read private-ipv4s: %w", err)
	}
	var others []netip.Prefix
	for _, a := range addresses {
		if !within.Contains(a) {
			return nil, fmt.Errorf("private-ipv4s: %s: want addresses of %s", a, within)
		}
		if a.String() != primary {
			others = append(others, netip.PrefixFrom(a, within.Bits()))
		}
	}
	return others, nil
}

func fetch(ctx context.Context, method, url, header, value string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set(header, value)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: HTTP status %d", url, answer.StatusCode)
	}
	return strings.TrimSpace(string(text)), err
}
