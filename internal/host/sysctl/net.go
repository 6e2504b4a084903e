// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
)

var (
	// ErrLacks says that this kernel has no such setting, or not of this
	// interface, as with IPv6 settings where IPv6 is off.
	ErrLacks = errors.New("this kernel has no such setting")
	// ErrReadOnly says that a setting cannot be written.
	ErrReadOnly = errors.New("the setting is read-only")
)

// NotAppliedError says that the kernel accepted a write, and the value read back differs.
type NotAppliedError struct {
	Interface, Key, Value, Got string
}

// Error names both values.
func (e *NotAppliedError) Error() string {
	return fmt.Sprintf("write %s of interface %q: the kernel made %q of %q", e.Key, e.Interface, e.Got, e.Value)
}

// groups are the directories below net that have one per interface.
var groups = []string{"ipv4/conf", "ipv4/neigh", "ipv6/conf", "ipv6/neigh"}

// Net is the settings of the interfaces of one network namespace.
type Net struct {
	root      string
	namespace int
	names     *names
	confCache *confCache
}

// New returns the settings of the namespace of a descriptor. Root is the
// directory that holds what /proc/sys holds, where it can be written to.
func New(root string, namespace int) Net {
	return Net{root: root, namespace: namespace, names: &names{}, confCache: &confCache{}}
}

// Read returns a setting, such as ipv4/conf/arp_ignore. The error is ErrLacks
// where there is none.
func (n Net) Read(ifname, key string) (string, error) {
	path, err := n.path(ifname, key)
	if err != nil {
		return "", fmt.Errorf("read %s of interface %q: %w", key, ifname, err)
	}
	var value string
	err = netns.Do(n.namespace, func() (err error) {
		value, err = read(path)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read %s of interface %q: %w", key, ifname, err)
	}
	return value, nil
}

// Write sets a setting and reads it back. The error is ErrLacks, ErrReadOnly or
// a NotAppliedError where that is why.
func (n Net) Write(ifname, key, value string) error {
	path, err := n.path(ifname, key)
	if err != nil {
		return fmt.Errorf("write %s of interface %q: %w", key, ifname, err)
	}
	return netns.Do(n.namespace, func() error { return write(path, ifname, key, value) })
}

// WriteAll sets a setting of all present and future interfaces of the namespace
// (conf.all), and reads it back. It is for what the kernel decides for a whole
// namespace only.
func (n Net) WriteAll(key, value string) error {
	const all = "all"
	path, err := n.file(all, key)
	if err != nil {
		return fmt.Errorf("write %s of all interfaces: %w", key, err)
	}
	return netns.Do(n.namespace, func() error { return write(path, all, key, value) })
}

func write(path, ifname, key, value string) error {
	err := writeFile(path, value)
	var got string
	if err == nil {
		got, err = read(path)
	}
	if err != nil {
		return fmt.Errorf("write %s = %q of interface %q: %w", key, value, ifname, err)
	}
	if got != value {
		return &NotAppliedError{Interface: ifname, Key: key, Value: value, Got: got}
	}
	return nil
}

// path is the file of a setting. Neither name may lead elsewhere: a pod may have
// chosen the interface's.
func (n Net) path(ifname, key string) (string, error) {
	if err := checkInterface(ifname); err != nil {
		return "", err
	}
	return n.file(ifname, key)
}

func (n Net) file(directory, key string) (string, error) {
	group, name, ok := cutLast(key)
	if !ok || !slices.Contains(groups, group) || name == "." || name == ".." || name == "" {
		return "", fmt.Errorf("the key is not a name below %s", strings.Join(groups, ", "))
	}
	return filepath.Join(n.root, "net", group, directory, name), nil
}

func cutLast(key string) (group, name string, ok bool) {
	i := strings.LastIndexByte(key, '/')
	if i < 0 {
		return "", "", false
	}
	return key[:i], key[i+1:], true
}

// checkInterface refuses what the kernel refuses as a name (net/core/dev.c,
// dev_valid_name), and the directories that are no interface's.
func checkInterface(ifname string) error {
	switch {
	case ifname == "all" || ifname == "default":
		return errors.New("that is no interface, but the whole namespace")
	case ifname == "" || len(ifname) >= unix.IFNAMSIZ || ifname == "." || ifname == "..":
		return errors.New("that is no name of an interface")
	case strings.ContainsAny(ifname, "/:\x00 \t\n\v\f\r"):
		return errors.New("a name of an interface has no slash, colon or space")
	}
	return nil
}

// longest is more than any setting of an interface takes.
const longest = 4096

// read reads a file of one line with three system calls and no poller: there
// are over a hundred of an interface, and each move brings new ones.
func read(path string) (string, error) { return readAt(unix.AT_FDCWD, path) }

// readAt is read of a path below a directory.
func readAt(dir int, path string) (string, error) {
	fd, err := retry(func() (int, error) { return unix.Openat(dir, path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return "", wrapError(err)
	}
	defer func() { _ = unix.Close(fd) }()
	var text [longest]byte
	n, err := retry(func() (int, error) { return unix.Read(fd, text[:]) })
	if err != nil {
		return "", wrapError(err)
	}
	return strings.TrimSuffix(string(text[:n]), "\n"), nil
}

// retry repeats what a signal interrupted; the runtime sends itself many.
func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func writeFile(path, value string) error {
	// Without O_CREATE: a setting that the kernel lacks must not become a file.
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_WRONLY|unix.O_TRUNC|unix.O_CLOEXEC, 0) })
	if err != nil {
		return wrapError(err)
	}
	// One write, and no second one for a short count: for
	// ipv6/conf/ignore_routes_with_linkdown Linux 6.1 returns 1 whatever it was given
	// (net/ipv6/addrconf.c, addrconf_fixup_linkdown), and refuses the rest by itself.
	// Callers read back.
	_, err = retry(func() (int, error) { return unix.Write(fd, []byte(value+"\n")) })
	return wrapError(errors.Join(err, unix.Close(fd)))
}

// wrapError turns an error of the file system into one of this package.
func wrapError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrLacks
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		return errors.Join(ErrReadOnly, err)
	}
	return err
}
