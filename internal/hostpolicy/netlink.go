// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysctl"
)

// Netlink is the Kernel of a live network namespace.
type Netlink struct {
	Conn *rtnl.Conn
	Net  sysctl.Net
}

// Read implements Kernel.
func (n Netlink) Read(link Link, field string) (string, error) {
	found, err := n.find(link)
	if err != nil {
		return "", err
	}
	switch {
	case field == fieldUp:
		return strconv.FormatBool(found.Up), nil
	case field == fieldMTU && found.MTU != nil:
		return strconv.Itoa(*found.MTU), nil
	case strings.HasPrefix(field, fieldAltName):
		if slices.Contains(found.AltNames, strings.TrimPrefix(field, fieldAltName)) {
			return present, nil
		}
		return absent, nil
	case strings.HasPrefix(field, fieldSysctl):
		return n.Net.Read(link.Name, strings.TrimPrefix(field, fieldSysctl))
	}
	return "", fmt.Errorf("link %s: the kernel does not tell its %s", link.Name, field)
}

// Write implements Kernel.
func (n Netlink) Write(link Link, field, value string) error {
	found, err := n.find(link)
	if err != nil {
		return err
	}
	switch {
	case field == fieldUp:
		up := value == "true"
		return n.Conn.Set(found.Index, rtnl.Change{Up: &up})
	case field == fieldMTU:
		mtu, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("link %s: mtu: %w", link.Name, err)
		}
		return n.Conn.Set(found.Index, rtnl.Change{Settings: rtnl.Settings{MTU: &mtu}})
	case strings.HasPrefix(field, fieldAltName) && value == present:
		return n.Conn.AddAltName(found.Index, strings.TrimPrefix(field, fieldAltName))
	case strings.HasPrefix(field, fieldAltName):
		return n.Conn.DeleteAltName(found.Index, strings.TrimPrefix(field, fieldAltName))
	case strings.HasPrefix(field, fieldSysctl):
		return n.Net.Write(link.Name, strings.TrimPrefix(field, fieldSysctl), value)
	}
	return fmt.Errorf("link %s: %s cannot be set", link.Name, field)
}

// find refuses a link that is another than the scan saw: a pod took it meanwhile, and
// something else has its name.
func (n Netlink) find(link Link) (*rtnl.Link, error) {
	found, err := n.Conn.LinkByName(link.Name)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", link.Name, err)
	}
	if found == nil || found.Name != link.Name || found.Index != link.Index {
		return nil, fmt.Errorf("link %s has gone since the scan", link.Name)
	}
	return found, nil
}
