// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/model"
)

const drmDir = "class/drm"

// ReadDRM returns the device files of display functions by PCI address, such
// as /dev/dri/card0 and /dev/dri/renderD128 (/sys/class/drm/*), sorted.
func ReadDRM(sys fs.FS) (map[model.PCIAddress][]string, []Problem) {
	r := newReader(sys)
	files := map[model.PCIAddress][]string{}
	for _, e := range r.list(drmDir) {
		if !isDRMFile(e.Name()) {
			continue // connectors, such as card0-VGA-1, and the file version
		}
		name := path.Join(drmDir, e.Name())
		dir, err := r.link(name)
		if err != nil {
			if !isGone(err) {
				r.problem(name, fmt.Errorf("display device left out: %w", err))
			}
			continue
		}
		if address := pciOf(dir); address != nil {
			files[*address] = append(files[*address], "/dev/dri/"+e.Name())
		}
	}
	for _, f := range files {
		slices.Sort(f)
	}
	return files, r.problems
}

func isDRMFile(name string) bool {
	for _, prefix := range []string{"card", "renderD"} {
		digits, ok := strings.CutPrefix(name, prefix)
		if _, err := strconv.ParseUint(digits, 10, 16); ok && err == nil {
			return true
		}
	}
	return false
}
