// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// packed ends the name of a module file that the kernel is to unpack.
const packed = ".xz"

// loadModules loads kernel modules in the given order, with their options by
// module name.
func loadModules(files []string, options map[string]string) error {
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), packed), ".ko")
		name = strings.ReplaceAll(name, "-", "_")
		if err := loadModule(file, options[name]); err != nil {
			return fmt.Errorf("load kernel module %s: %w", file, err)
		}
	}
	return nil
}

func loadModule(file, options string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	flags := 0
	if strings.HasSuffix(file, packed) {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), options, flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// setSysctls writes kernel settings below /proc/sys.
func setSysctls(values map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		file := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
		if err := os.WriteFile(file, []byte(values[name]), 0); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// setNUMANodes sets the NUMA node of functions below a root that cannot
// say (drivers/pci/pci-sysfs.c, numa_node_store). It must come before drivers
// bind, so that their memory lies there too.
func setNUMANodes(nodes map[string]int) error {
	for _, address := range slices.Sorted(maps.Keys(nodes)) {
		file := filepath.Join("/sys/bus/pci/devices", address, "numa_node")
		if err := os.WriteFile(file, []byte(strconv.Itoa(nodes[address])), 0); err != nil {
			return fmt.Errorf("set NUMA node of %s: %w", address, err)
		}
	}
	return nil
}
