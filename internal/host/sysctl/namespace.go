// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysctl

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/host/netns"
)

// namespaceName is a sysctl below net that is not of an interface. It has no slash, so
// that no name leads elsewhere.
var namespaceName = regexp.MustCompile(`^net\.[a-z0-9]+(\.[a-z0-9_]+){1,3}$`)

// congestionControl is the one setting for which the kernel loads a module, of the name
// that is written (net/ipv4/tcp_cong.c, tcp_ca_find_autoload).
const congestionControl = "net.ipv4.tcp_congestion_control"

// WriteNamespace sets a sysctl of the whole namespace, such as net.ipv4.tcp_rmem,
// and reads it back. Sysctls of the whole node are not shown, or are read-only, in any
// but the first namespace (net/sysctl_net.c, ensure_safe_net_sysctl): the error is
// ErrLacks or ErrReadOnly then.
func (n Net) WriteNamespace(name, value string) error {
	path, err := n.namespaceFile(name)
	if err == nil {
		err = netns.Do(n.namespace, func() error { return n.writeNamespace(path, name, value) })
	}
	if err != nil {
		return fmt.Errorf("write %s = %q: %w", name, value, err)
	}
	return nil
}

// ReadNamespace reads a sysctl of the whole namespace, with a space between numbers, as
// WriteNamespace takes it.
func (n Net) ReadNamespace(name string) (value string, err error) {
	path, err := n.namespaceFile(name)
	if err == nil {
		err = netns.Do(n.namespace, func() (err error) { value, err = read(path); return err })
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return spaced(value), nil
}

// spaced has a space where the kernel puts tabs between numbers.
func spaced(value string) string { return strings.Join(strings.Fields(value), " ") }

func (n Net) namespaceFile(name string) (string, error) {
	if !namespaceName.MatchString(name) {
		return "", errors.New("that is no name of a sysctl below net")
	}
	return filepath.Join(n.root, filepath.FromSlash(strings.ReplaceAll(name, ".", "/"))), nil
}

func (n Net) writeNamespace(path, name, value string) error {
	if name == congestionControl {
		loaded, err := read(filepath.Join(n.root, "net/ipv4/tcp_available_congestion_control"))
		if err != nil {
			return err
		}
		if !slices.Contains(strings.Fields(loaded), value) {
			return fmt.Errorf("the node has not loaded it: want one of %s", loaded)
		}
	}
	if err := writeFile(path, value); err != nil {
		return err
	}
	got, err := read(path)
	if err != nil {
		return err
	}
	if now := spaced(got); now != value {
		return fmt.Errorf("the kernel made %q of it", now)
	}
	return nil
}
