// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package image makes the lab's own images: a shell for pods, what holds their
// namespaces, a driver of NICs, and the driver that ours is measured beside. The image of plumbline is
// made by internal/release, as users' is.
package image

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"strings"

	"plumbline.dev/plumbline/internal/ociimage"
	"plumbline.dev/plumbline/internal/release"
)

// Names of the lab's images. None can be pulled; each is put on the node.
const (
	// Busybox is a shell with the usual small tools.
	Busybox = "plumbline.dev/lab/busybox:latest"
	// Pause holds a pod's namespaces.
	Pause = "plumbline.dev/lab/pause:latest"
	// Plumbline is the project's own image, under the tag the chart's
	// rendering in deploy/ asks for.
	Plumbline = release.Repository + ":dev"
	// NICDriver loads a kernel module of NICs, as vendors' images do.
	NICDriver = "plumbline.dev/lab/nic-driver:latest"
	// Perftest has perftest's commands, and a shell.
	Perftest = "plumbline.dev/lab/perftest:latest"
	// DRANET is the driver that ours is measured beside.
	DRANET = "plumbline.dev/lab/dranet:latest"
)

// Architecture is what the lab's images are for.
const Architecture = "amd64"

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
func BusyboxImages(busybox string, applets []string) map[string]ociimage.Image {
	layer := ociimage.Layer{
		Programs: map[string]string{"/bin/busybox": busybox},
		Links:    appletLinks(applets),
		Files: map[string]string{
			"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
			"/etc/group":  "root:x:0:\nnogroup:x:65534:\n",
		},
		Dirs: map[string]os.FileMode{"/root": 0o700, "/tmp": 0o777 | os.ModeSticky},
	}
	return map[string]ociimage.Image{
		Busybox: {Layer: layer, Architecture: Architecture, Command: []string{"/bin/sh"}},
		// A sandbox's first process only has to stay until it is killed.
		Pause: {
			Layer: ociimage.Layer{
				Programs: map[string]string{"/bin/busybox": busybox},
				Links:    map[string]string{"/bin/sleep": "busybox"},
			},
			Architecture: Architecture,
			Command:      []string{"/bin/sleep", "2147483647"},
		},
	}
}

// appletLinks are links by which a busybox in /bin is called.
func appletLinks(applets []string) map[string]string {
	links := map[string]string{}
	for _, applet := range applets {
		if applet != "busybox" {
			links["/bin/"+applet] = "busybox"
		}
	}
	return links
}

// nicDriver loads modules, and unloads them when it is told to end.
//
//go:embed nic-driver.sh
var nicDriver string

// NICDriverImage returns an image that has kernel modules, by their files in the order of
// loading, and loads them: the last one is the driver.
func NICDriverImage(busybox string, applets, modules []string) map[string]ociimage.Image {
	layer := ociimage.Layer{
		Programs: map[string]string{"/bin/busybox": busybox},
		Links:    appletLinks(applets),
		Files:    map[string]string{"/nic-driver.sh": nicDriver},
	}
	command := []string{"/bin/sh", "/nic-driver.sh"}
	for _, file := range modules {
		// As the kernel names it, which knows no dashes.
		name := strings.ReplaceAll(strings.TrimSuffix(path.Base(file), ".ko"), "-", "_")
		layer.Programs["/drivers/"+name+".ko"] = file
		command = append(command, name)
	}
	return map[string]ociimage.Image{NICDriver: {Layer: layer, Architecture: Architecture, Command: command}}
}

// DRANETImage returns the image of the dranet program at a path.
func DRANETImage(program string) map[string]ociimage.Image {
	return map[string]ociimage.Image{DRANET: {
		Layer: ociimage.Layer{
			Programs: map[string]string{"/dranet": program},
			Dirs:     map[string]os.FileMode{"/tmp": 0o777 | os.ModeSticky},
		},
		Architecture: Architecture,
		Command:      []string{"/dranet"},
	}}
}

// PerftestImage returns the image of perftest, whose files of this host are given by their
// paths in it.
func PerftestImage(busybox string, applets []string, files map[string]string) map[string]ociimage.Image {
	programs := map[string]string{"/bin/busybox": busybox}
	maps.Copy(programs, files)
	return map[string]ociimage.Image{Perftest: {
		Layer: ociimage.Layer{
			Programs: programs, Links: appletLinks(applets),
			Dirs: map[string]os.FileMode{"/root": 0o700, "/tmp": 0o777 | os.ModeSticky},
		},
		Architecture: Architecture,
		Command:      []string{"/bin/sh"},
	}}
}
