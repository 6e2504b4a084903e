// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"path/filepath"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// hostLinks asks rtnetlink where this program's network namespace is the host's, that of
// the host's first process: it enters none.
func hostLinks(proc string) (ask func(index int) (map[int]VFSettings, error), done func(), err error) {
	host, err := netns.Open(filepath.Join(proc, "1/ns/net"))
	if err != nil {
		return nil, nil, err
	}
	own, err := netns.Open(netns.Self)
	if err != nil {
		return nil, nil, errors.Join(err, host.Close())
	}
	same := host.ID() == own.ID()
	if err := errors.Join(host.Close(), own.Close()); err != nil {
		return nil, nil, err
	}
	if !same {
		return nil, nil, ErrNotOnHost
	}
	conn, err := rtnl.Dial(netns.Current)
	if err != nil {
		return nil, nil, err
	}
	return func(index int) (map[int]VFSettings, error) {
		list, err := conn.VFs(index)
		if err != nil {
			return nil, err
		}
		told := make(map[int]VFSettings, len(list))
		for _, vf := range list {
			told[vf.Number] = settingsOf(vf.VFSettings)
		}
		return told, nil
	}, conn.Close, nil
}

func settingsOf(s rtnl.VFSettings) VFSettings {
	out := VFSettings{MAC: s.MAC, SpoofCheck: s.SpoofCheck, Trust: s.Trust}
	if s.VLAN != nil {
		out.VLAN = &VFVLAN{ID: s.VLAN.ID, QoS: s.VLAN.QoS, Protocol: s.VLAN.Protocol}
	}
	if s.Rate != nil {
		out.Rate = &VFRate{Min: s.Rate.Min, Max: s.Rate.Max}
	}
	return out
}
