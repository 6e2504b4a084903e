// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/initramfs"
	"plumbline.dev/plumbline/lab/vm/kernel"
)

// writeInitramfs packs the guest's filesystem.
func (c *Config) writeInitramfs(name string) error {
	files := Userland(c.Name, c.Busybox, c.Applets)
	files["/init"] = initramfs.File{Source: c.Init, Mode: 0o755}
	modules, err := c.addModules(files)
	if err != nil {
		return err
	}
	files.Add(c.Files)
	plan, err := json.MarshalIndent(c.plan(modules), "", "  ")
	if err != nil {
		return fmt.Errorf("write guest plan: %w", err)
	}
	files[guest.PlanPath] = initramfs.File{Content: plan}
	dirs := append(initramfs.Dirs{"/root", "/var/log", "/var/lib", "/mnt", "/usr/bin", "/sbin"}, c.Dirs...)
	return initramfs.WriteFile(name, files, dirs)
}

// Userland is what every node of the lab has before any software of its own:
// busybox with its commands, and who and what it is.
func Userland(name, busybox string, applets []string) initramfs.Files {
	files := initramfs.Files{
		"/bin/busybox":  {Source: busybox, Mode: 0o755},
		"/etc/hostname": {Content: []byte(name + "\n")},
		"/etc/hosts":    {Content: []byte("127.0.0.1 localhost\n" + GuestAddress + " " + name + "\n")},
		"/etc/passwd":   {Content: []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")},
		"/etc/group":    {Content: []byte("root:x:0:\nnogroup:x:65534:\n")},
		// The kubelet copies it to pods; the node has no name server.
		"/etc/resolv.conf":   {},
		"/etc/nsswitch.conf": {Content: []byte("hosts: files dns\n")},
		"/etc/os-release":    {Content: []byte("ID=plumblab\nNAME=plumblab\nPRETTY_NAME=\"plumblab virtual node\"\nVERSION_ID=1\n")},
		"/etc/machine-id":    {Content: []byte(machineID(name) + "\n")},
		"/var/run":           {Link: "/run"},
	}
	for _, applet := range applets {
		if applet != "busybox" {
			files["/bin/"+applet] = initramfs.File{Link: "busybox"}
		}
	}
	return files
}

// bootable returns the kernel as QEMU starts it quickest: unpacked, kept in the
// machine's folder for the next time, where its packing is known.
func (c *Config) bootable() (string, error) {
	image, err := os.Stat(c.Kernel)
	if err != nil {
		return "", fmt.Errorf("find kernel: %w", err)
	}
	unpacked := c.path("vmlinux-" + filepath.Base(c.ModulesDir))
	if kept, err := os.Stat(unpacked); err == nil && kept.ModTime().After(image.ModTime()) {
		return unpacked, nil
	}
	err = kernel.ExtractFile(unpacked, c.Kernel)
	if errors.Is(err, kernel.ErrOther) {
		return c.Kernel, nil
	}
	return unpacked, err
}

// addModules adds the kernel modules and returns their paths in the order to
// load them.
func (c *Config) addModules(files initramfs.Files) ([]string, error) {
	known, err := initramfs.OpenModules(c.ModulesDir)
	if err != nil {
		return nil, err
	}
	sources, err := known.Load(c.moduleNames()...)
	if err != nil {
		return nil, err
	}
	loaded := make([]string, len(sources))
	for i, source := range sources {
		below, err := filepath.Rel(c.ModulesDir, source)
		if err != nil {
			return nil, fmt.Errorf("place kernel module: %w", err)
		}
		loaded[i] = filepath.Join("/lib/modules", filepath.Base(c.ModulesDir), below)
		files[loaded[i]] = initramfs.File{Source: source}
	}
	return loaded, nil
}
