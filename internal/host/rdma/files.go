// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/host/sysfs"
)

// Files are the device files of an RDMA device, as paths below /dev.
type Files struct {
	// Uverbs is what applications need. Umad and Issm are the subnet's
	// management, by which a pod could reconfigure the fabric.
	Uverbs, Umad, Issm []string
	// CM is /dev/infiniband/rdma_cm, which all devices share; empty where the
	// kernel has not made it.
	CM string
}

// DeviceFiles finds the device files of an RDMA device. Sys is /sys.
func DeviceFiles(sys fs.FS, name string) (Files, error) {
	devices, problems := sysfs.ReadRDMADevices(sys)
	i := slices.IndexFunc(devices, func(d sysfs.RDMADevice) bool { return d.Name == name })
	if i < 0 {
		return Files{}, fmt.Errorf("class/infiniband has no device %q (%d others, %d problems)", name, len(devices), len(problems))
	}
	var files Files
	for _, file := range devices[i].CharDevices {
		switch base := path.Base(file); {
		case strings.HasPrefix(base, "uverbs"):
			files.Uverbs = append(files.Uverbs, file)
		case strings.HasPrefix(base, "umad"):
			files.Umad = append(files.Umad, file)
		case strings.HasPrefix(base, "issm"):
			files.Issm = append(files.Issm, file)
		case base == "rdma_cm":
			files.CM = file
		}
	}
	return files, nil
}
