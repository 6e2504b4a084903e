// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Applets returns the commands a busybox provides, as it lists them itself.
func Applets(ctx context.Context, busybox string) ([]string, error) {
	list, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the commands of %s: %w", busybox, err)
	}
	return strings.Fields(string(list)), nil
}

// BusyboxImages returns the lab's own images, made of one static busybox that
// provides the commands called applets.
func BusyboxImages(busybox string, applets []string) map[string]Image {
	links := map[string]string{}
	for _, applet := range applets {
		if applet != "busybox" {
			links["/bin/"+applet] = "busybox"
		}
	}
	layer := Layer{
		Programs: map[string]string{"/bin/busybox": busybox},
		Links:    links,
		Files: map[string]string{
			"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
			"/etc/group":  "root:x:0:\nnogroup:x:65534:\n",
		},
		Dirs: map[string]os.FileMode{"/root": 0o700, "/tmp": 0o777 | os.ModeSticky},
	}
	return map[string]Image{
		Busybox: {Layer: layer, Command: []string{"/bin/sh"}},
		// A sandbox's first process only has to stay until it is killed.
		Pause: {
			Layer: Layer{
				Programs: map[string]string{"/bin/busybox": busybox},
				Links:    map[string]string{"/bin/sleep": "busybox"},
			},
			Command: []string{"/bin/sleep", "2147483647"},
		},
	}
}

// nodePrograms are those that run in a cluster; the others are for people.
var nodePrograms = []string{"plumbline-agent", "plumbline-explainer", "plumbline-guard"}

// PlumblineImage returns the project's image: the static programs a cluster runs,
// the database of PCI names, and nothing else. dir holds the programs called
// names, pciIDs is the database's path.
func PlumblineImage(dir string, names []string, pciIDs string) (map[string]Image, error) {
	database, err := os.ReadFile(pciIDs)
	if err != nil {
		return nil, fmt.Errorf("read database of PCI names: %w", err)
	}
	programs := map[string]string{}
	for _, name := range names {
		if slices.Contains(nodePrograms, name) {
			programs[path.Join("/usr/bin", name)] = filepath.Join(dir, name)
		}
	}
	return map[string]Image{Plumbline: {
		Layer: Layer{
			Programs: programs,
			Files:    map[string]string{"/usr/share/misc/pci.ids": string(database)},
			Dirs:     map[string]os.FileMode{"/tmp": 0o777 | os.ModeSticky},
		},
		Command: []string{"/usr/bin/plumbline-agent"},
	}}, nil
}

// DRANETImage returns the image of the dranet program at a path.
func DRANETImage(program string) map[string]Image {
	return map[string]Image{DRANET: {
		Layer: Layer{
			Programs: map[string]string{"/dranet": program},
			Dirs:     map[string]os.FileMode{"/tmp": 0o777 | os.ModeSticky},
		},
		Command: []string{"/dranet"},
	}}
}
