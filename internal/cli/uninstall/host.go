// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"plumbline.dev/plumbline/internal/cdi"
)

const byLeave = "plumbline-agent leave, as root on the host, once no pod of it holds a device"

// files are what agents keep on this host: what plumbline-agent leave takes away.
func (o *options) files() (Report, error) {
	if _, err := os.Stat(filepath.Join(o.root, "proc")); err != nil {
		return Report{}, fmt.Errorf("--root %s: no host's root directory: %w", o.root, err)
	}
	r := Report{Left: []Leftover{}}
	r.addFiles(filepath.Join(o.root, o.stateDir), func(string) bool { return true })
	for _, driver := range drivers {
		r.addFiles(filepath.Join(o.root, o.kubelet, "plugins_registry"), func(name string) bool { return strings.HasPrefix(name, driver+"-") })
		r.addFiles(filepath.Join(o.root, o.kubelet, "plugins", driver), func(string) bool { return true })
		r.addSpecs(filepath.Join(o.root, "var/run/cdi"), driver)
	}
	return r, nil
}

// addFiles notes the entries of a directory that are ours.
func (r *Report) addFiles(dir string, ours func(name string) bool) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Unknown = append(r.Unknown, err.Error())
	}
	for _, e := range entries {
		if ours(e.Name()) {
			r.Left = append(r.Left, Leftover{Kind: "file", Name: filepath.Join(dir, e.Name()), Fix: byLeave})
		}
	}
}

// addSpecs notes the CDI specs that agents wrote for a driver.
func (r *Report) addSpecs(dir, driver string) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return // opening would make it
	}
	specs, err := cdi.Open(dir)
	if err != nil {
		r.Unknown = append(r.Unknown, err.Error())
		return
	}
	uids, err := specs.Written(driver)
	if err != nil {
		r.Unknown = append(r.Unknown, err.Error())
	}
	for _, uid := range uids {
		r.Left = append(r.Left, Leftover{Kind: "file", Name: filepath.Join(dir, string(uid)), Found: "CDI spec of " + driver + " for this claim", Fix: byLeave})
	}
}
