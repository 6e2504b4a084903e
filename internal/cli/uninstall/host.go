// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"plumbline.dev/plumbline/internal/cdi"
)

const byLeave = "plumbline-agent leave, as root on the host, once no pod of it holds a device"

// files are what agents keep on this host: what plumbline-agent leave takes away.
func (o *options) files() (Report, error) {
	if _, err := os.Stat(filepath.Join(o.root, "proc")); err != nil {
		return Report{}, fmt.Errorf("--root %s: no host's root directory: %w", o.root, err)
	}
	r := Report{Left: []Leftover{}}
	r.addFiles(filepath.Join(o.root, o.stateDir), "", false)
	for _, driver := range drivers {
		r.addFiles(filepath.Join(o.root, o.kubelet, "plugins_registry"), driver+"-", true)
		r.addFiles(filepath.Join(o.root, o.kubelet, "plugins", driver), "dra", true)
		r.addSpecs(filepath.Join(o.root, o.cdiDir), driver)
	}
	return r, nil
}

// addFiles notes the entries of a directory with a prefix: all, or sockets that nobody
// listens on. One that somebody listens on is of another server of the driver, or of an
// agent, which the state directory tells.
func (r *Report) addFiles(dir, prefix string, sockets bool) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Unknown = append(r.Unknown, err.Error())
	}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		if !strings.HasPrefix(e.Name(), prefix) || sockets && !isDead(file) {
			continue
		}
		r.Left = append(r.Left, Leftover{Kind: "file", Name: file, Fix: byLeave})
	}
}

func isDead(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err == nil {
		_ = conn.Close() // nothing was said
	}
	return errors.Is(err, syscall.ECONNREFUSED)
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
		r.Left = append(r.Left, Leftover{Kind: "file", Name: specs.File(driver, uid), Found: "CDI spec of " + driver, Fix: byLeave})
	}
}
