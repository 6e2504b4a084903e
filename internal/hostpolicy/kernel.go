// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sriov"
	"plumbline.dev/plumbline/internal/host/sysctl"
	"plumbline.dev/plumbline/internal/hostsetup"
	"plumbline.dev/plumbline/internal/model"
)

// Live is the Kernel that runs, and the network namespace that this process is in.
type Live struct {
	Conn *rtnl.Conn
	Net  sysctl.Net
	// Host reads what Asker asks others to write.
	Host  hostsetup.Host
	Asker *hostsetup.Asker
	// Held returns the NICs that claims hold.
	Held func() ([]model.NIC, error)
	Gate *Gate
	// Shares are the links that are offered for sharing.
	Shares *Shares
}

// Read implements Kernel.
func (k Live) Read(link Link, field string) (string, error) {
	switch {
	case ofFunction(field):
		return k.Host.Read(link.Function, field)
	case link.Key == "":
		return k.readHost(field)
	}
	if field == fieldShare {
		return k.Shares.read(link.Key), nil
	}
	found, err := k.find(link)
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
		return k.Net.Read(link.Name, strings.TrimPrefix(field, fieldSysctl))
	}
	return "", fmt.Errorf("link %s: the kernel does not tell its %s", link.Name, field)
}

func (k Live) readHost(field string) (string, error) {
	if field == fieldRDMANamespaces {
		mode, err := rdma.NamespaceMode(netns.Current)
		return string(mode), err
	}
	if key, ok := ownSysctl(field); ok {
		return k.Net.ReadNamespace(key)
	}
	value, err := k.Host.Read("", field)
	if err == nil && value == absent && k.Asker.BuiltIn(field) {
		value = present
	}
	return value, err
}

// ownSysctl cuts the key out of a field of a setting that the agent may set itself.
func ownSysctl(field string) (key string, ok bool) {
	key, ok = strings.CutPrefix(field, fieldSysctl)
	_, own := hostSysctls[key]
	return key, ok && own
}

// Write implements Kernel.
func (k Live) Write(link Link, field, value string) error {
	switch {
	case field == fieldNumVFs && k.Asker.Enabled() && !k.Gate.close(link.Function):
		return errClosing
	case ofFunction(field):
		return k.Asker.Ask(hostsetup.Change{Function: link.Function, Field: field, Value: value})
	case link.Key == "":
		return k.writeHost(field, value)
	}
	if field == fieldShare {
		return k.share(link, value)
	}
	found, err := k.find(link)
	if err != nil {
		return err
	}
	switch {
	case field == fieldUp:
		up := value == "true"
		return k.Conn.Set(found.Index, rtnl.Change{Up: &up})
	case field == fieldMTU:
		mtu, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("link %s: mtu: %w", link.Name, err)
		}
		return k.Conn.Set(found.Index, rtnl.Change{Settings: rtnl.Settings{MTU: &mtu}})
	case strings.HasPrefix(field, fieldAltName) && value == present:
		return k.Conn.AddAltName(found.Index, strings.TrimPrefix(field, fieldAltName))
	case strings.HasPrefix(field, fieldAltName):
		return k.Conn.DeleteAltName(found.Index, strings.TrimPrefix(field, fieldAltName))
	case strings.HasPrefix(field, fieldSysctl):
		return k.Net.Write(link.Name, strings.TrimPrefix(field, fieldSysctl), value)
	}
	return fmt.Errorf("link %s: %s cannot be set", link.Name, field)
}

// share offers a link, or with the empty value no more.
func (k Live) share(link Link, value string) error {
	if value == "" {
		return k.Shares.write(link.Key, value)
	}
	found, err := k.find(link)
	if err != nil {
		return err
	}
	if found.SlaveKind != nil && *found.SlaveKind != "vrf" {
		return fmt.Errorf("link %s is a port of a %s, which has its packets: want that shared", link.Name, *found.SlaveKind)
	}
	return k.Shares.write(link.Key, value)
}

func (k Live) writeHost(field, value string) error {
	if field == fieldRDMANamespaces {
		err := rdma.SetNamespaceMode(rdma.Mode(value))
		if errors.Is(err, unix.EBUSY) {
			flag := map[rdma.Mode]int{rdma.Shared: 1, rdma.Exclusive: 0}[rdma.Mode(value)]
			return fmt.Errorf("%w: there are network namespaces: want \"options ib_core netns_mode=%d\" in /etc/modprobe.d, and a reboot", err, flag)
		}
		return err
	}
	if key, ok := ownSysctl(field); ok {
		return k.Net.WriteNamespace(key, value)
	}
	return k.Asker.Ask(hostsetup.Change{Field: field, Value: value})
}

// Unsettled implements Reader.
func (k Live) Unsettled(link Link, field string) bool {
	return asked(link, field) && k.Asker.Unsettled()
}

// Used implements Reader.
func (k Live) Used(link Link) (string, error) {
	address, err := model.ParsePCIAddress(link.Function)
	if err != nil {
		return "", err
	}
	virtual, err := sriov.Virtual(k.Host.Sys, address)
	if err != nil {
		return "", err
	}
	held, err := k.Held()
	if err != nil {
		return "", fmt.Errorf("which devices claims hold: %w", err)
	}
	for _, n := range held {
		switch {
		case n.PCI == nil:
		case *n.PCI == address:
			return fmt.Sprintf("a claim holds %s", address), nil
		case slices.Contains(virtual, *n.PCI):
			return fmt.Sprintf("a claim holds virtual function %s", n.PCI), nil
		}
	}
	return sriov.Used(k.Host.Sys, address)
}

// asked says whether a field is one that others are asked to write.
func asked(link Link, field string) bool {
	_, own := ownSysctl(field)
	return ofFunction(field) || link.Key == "" && field != fieldRDMANamespaces && !own
}

// find refuses a link that is another than the scan saw: a pod took it meanwhile, and
// something else has its name.
func (k Live) find(link Link) (*rtnl.Link, error) {
	found, err := k.Conn.LinkByName(link.Name)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", link.Name, err)
	}
	if found == nil || found.Name != link.Name || found.Index != link.Index {
		return nil, fmt.Errorf("link %s has gone since the scan", link.Name)
	}
	return found, nil
}
