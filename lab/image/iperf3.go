// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"maps"
	"os"

	"plumbline.dev/plumbline/internal/ociimage"
)

// Iperf3 has iperf3, and a shell's small tools.
const Iperf3 = "plumbline.dev/lab/iperf3:latest"

// Iperf3Image returns the image of iperf3, whose files of this host are given by their paths
// in it.
func Iperf3Image(busybox string, applets []string, files map[string]string) map[string]ociimage.Image {
	programs := map[string]string{"/bin/busybox": busybox}
	maps.Copy(programs, files)
	return map[string]ociimage.Image{Iperf3: {
		Layer: ociimage.Layer{
			Programs: programs, Links: appletLinks(applets),
			// iperf3 sends from a file that it makes there.
			Dirs: map[string]os.FileMode{"/tmp": 0o777 | os.ModeSticky},
		},
		Architecture: Architecture,
		Command:      []string{"/usr/bin/iperf3", "--server"},
	}}
}
