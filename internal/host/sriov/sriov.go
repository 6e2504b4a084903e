// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/model"
)

// MaxCount is the greatest that sriov_totalvfs can be: TotalVFs has 16 bits.
const MaxCount = 1<<16 - 1

// Counts are of virtual functions.
type Counts struct {
	Now   int // sriov_numvfs
	Total int // sriov_totalvfs
}

func dir(a model.PCIAddress) string { return path.Join("bus/pci/devices", a.String()) }

// TotalFile is the path of the file with the most that a function may have, below sysfs'
// root.
func TotalFile(a model.PCIAddress) string { return path.Join(dir(a), "sriov_totalvfs") }

func countFile(a model.PCIAddress) string { return path.Join(dir(a), "sriov_numvfs") }

// Read returns how many virtual functions a NIC has and may have, where sys is the path of
// sysfs. It fails for what is no physical function of a NIC.
func Read(sys string, a model.PCIAddress) (c Counts, err error) {
	files := os.DirFS(sys)
	class, err := read(files, path.Join(dir(a), "class"))
	if err != nil {
		return c, err
	}
	code, err := strconv.ParseUint(strings.TrimPrefix(class, "0x"), 16, 24)
	if err != nil || code>>16 != model.PCIClassNetwork {
		return c, fmt.Errorf("%s is no network controller: its class is %q, want 0x02 and four more digits", a, class)
	}
	if pf, err := fs.ReadLink(files, path.Join(dir(a), "physfn")); err == nil {
		return c, fmt.Errorf("%s is a virtual function of %s", a, path.Base(pf))
	}
	if c.Total, err = number(files, TotalFile(a)); errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("%s cannot have virtual functions: it has no sriov_totalvfs", a)
	} else if err != nil {
		return c, err
	}
	c.Now, err = number(files, countFile(a))
	return c, err
}

func read(files fs.FS, name string) (string, error) {
	text, err := fs.ReadFile(files, name)
	return strings.TrimSpace(string(text)), err
}

func number(files fs.FS, name string) (int, error) {
	text, err := read(files, name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return int(n), nil
}

// Virtual returns the virtual functions of a function, in the order of their numbers.
func Virtual(sys string, a model.PCIAddress) ([]model.PCIAddress, error) {
	files := os.DirFS(sys)
	entries, err := fs.ReadDir(files, dir(a))
	if err != nil {
		return nil, err
	}
	byNumber := map[int]model.PCIAddress{}
	var numbers []int
	for _, e := range entries {
		digits, is := strings.CutPrefix(e.Name(), "virtfn")
		n, err := strconv.Atoi(digits)
		if !is || err != nil {
			continue
		}
		target, err := fs.ReadLink(files, path.Join(dir(a), e.Name()))
		if err != nil {
			return nil, err
		}
		vf, err := model.ParsePCIAddress(path.Base(target))
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", e.Name(), a, err)
		}
		byNumber[n] = vf
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	var found []model.PCIAddress
	for _, n := range numbers {
		found = append(found, byNumber[n])
	}
	return found, nil
}

// namespaced are folders of a function that sysfs has while the function has such devices,
// and whose entries it shows to the network namespace alone that each device is in
// (drivers/base/core.c, class_dir_child_ns_type).
var namespaced = []string{"net", "infiniband"}

// Used says how somebody uses one of the virtual functions of a function, as a clause such
// as "virtual function 0000:01:00.2 is bound to vfio-pci"; empty where sysfs shows no use.
// sys must be one that shows the host's network.
func Used(sys string, a model.PCIAddress) (string, error) {
	all, err := Virtual(sys, a)
	if err != nil {
		return "", err
	}
	for _, vf := range all {
		how, err := usedBy(os.DirFS(sys), vf)
		if err != nil {
			return "", err
		}
		if how != "" {
			return fmt.Sprintf("virtual function %s %s", vf, how), nil
		}
	}
	return "", nil
}

func usedBy(files fs.FS, vf model.PCIAddress) (string, error) {
	target, err := fs.ReadLink(files, path.Join(dir(vf), "driver"))
	switch driver := path.Base(target); {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil // without a driver it is nobody's
	case err != nil:
		return "", err
	case strings.HasPrefix(driver, "vfio"), strings.HasPrefix(driver, "uio"), strings.HasSuffix(driver, "_uio"):
		return "is bound to " + driver + ", for programs that drive it themselves", nil
	}
	for _, class := range namespaced {
		entries, err := fs.ReadDir(files, path.Join(dir(vf), class))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", err
		case len(entries) == 0:
			return "is in another network namespace than the host's", nil
		}
	}
	return "", nil
}

// SetCount makes a function have so many virtual functions. The kernel changes a count
// that is not 0 through 0 alone (drivers/pci/pci-sysfs.c, sriov_numvfs_store): all that
// there were go then. It does nothing where there are as many.
func SetCount(sys string, a model.PCIAddress, count int) error {
	return setCount(sys, a, count, func(name, value string) error {
		return os.WriteFile(name, []byte(value), 0)
	})
}

func setCount(sys string, a model.PCIAddress, count int, write func(name, value string) error) error {
	c, err := Read(sys, a)
	switch {
	case err != nil:
		return err
	case count > c.Total:
		return fmt.Errorf("%d is more than %s says, %d", count, filepath.Join(sys, TotalFile(a)), c.Total)
	case count == c.Now:
		return nil
	}
	file := filepath.Join(sys, countFile(a))
	if c.Now != 0 {
		if err := write(file, "0"); err != nil {
			return err
		}
	}
	if count != 0 {
		if err := write(file, strconv.Itoa(count)); err != nil {
			return fmt.Errorf("%w: %s has no virtual functions now", err, a)
		}
	}
	took, err := Read(sys, a)
	if err == nil && took.Now != count {
		err = fmt.Errorf("the driver of %s made %d virtual functions of %d", a, took.Now, count)
	}
	return err
}
