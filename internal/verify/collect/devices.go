// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/procfs"
	"plumbline.dev/plumbline/internal/model"
)

const (
	// devDepth is how far below /dev is looked, devEntries at how much.
	devDepth   = 3
	devEntries = 8192
)

// passedOver are directories below /dev in which pods make files of their own,
// and no device file of the host's is ever.
var passedOver = []string{"shm", "mqueue", "pts", "fd"}

// ordinary are majors that every container has: memory, terminals
// (Documentation/admin-guide/devices.txt).
var ordinary = []string{"1:", "4:", "5:", "136:"}

// NVIDIA's device numbers have no place below /sys/dev. The last minors are of
// all GPUs: nvidia-modeset and nvidiactl.
const (
	nvidiaMajor   = "195"
	nvidiaForAll  = 254
	nvidiaDirPath = "driver/nvidia/gpus"
)

// deviceFile is a character device in a container's /dev.
type deviceFile struct {
	path, number string
}

// devices lists the device files of a container that not every one has, by path.
func (in *inside) devices() ([]deviceFile, error) {
	if err := in.answers("/dev"); err != nil {
		return nil, err
	}
	dev, err := openBelow(in.root, "dev", crossing)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	w := devWalk{in: in, left: devEntries}
	if err := w.walk(dev, "/dev", devDepth); err != nil {
		return nil, err
	}
	slices.SortFunc(w.found, func(a, b deviceFile) int { return cmp.Compare(a.path, b.path) })
	return w.found, nil
}

// devWalk is a walk through one container's /dev.
type devWalk struct {
	in    *inside
	found []deviceFile
	left  int
}

func (w *devWalk) walk(dir *os.File, name string, depth int) error {
	entries, err := dir.ReadDir(w.left + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("list %s in the container: %w", name, err)
	}
	if w.left -= len(entries); w.left < 0 {
		return fmt.Errorf("more than %d files below /dev in the container", devEntries)
	}
	for _, e := range entries {
		if e.IsDir() && (depth == 1 || depth == devDepth && slices.Contains(passedOver, e.Name())) {
			continue
		}
		// What a server answers for is the pod's own: the runtime makes device
		// files in memory, or binds the host's, which are there too.
		if w.in.answers(path.Join(name, e.Name())) != nil {
			continue
		}
		step := w.file
		if e.IsDir() {
			step = w.below
		}
		if err := step(dir, name, e.Name(), depth); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

func (w *devWalk) below(dir *os.File, name, child string, depth int) error {
	full := path.Join(name, child)
	resolve := uint64(staying)
	if w.in.mounts[full] != nil {
		resolve = crossing
	}
	sub, err := openBelow(dir, child, resolve)
	if err != nil {
		return err
	}
	defer sub.Close()
	return w.walk(sub, full, depth-1)
}

func (w *devWalk) file(dir *os.File, name, child string, _ int) error {
	full := path.Join(name, child)
	number, isDevice, err := w.in.options.Device(int(dir.Fd()), child)
	if err != nil {
		return fmt.Errorf("%s in the container: %w", full, err)
	}
	if isDevice && !slices.ContainsFunc(ordinary, func(m string) bool { return strings.HasPrefix(number, m) }) {
		w.found = append(w.found, deviceFile{path: full, number: number})
	}
	return nil
}

// files finds the PCI functions behind device files.
func (r *Reader) files(devices []deviceFile) ([]File, error) {
	var found []File
	for _, d := range devices {
		kind, address, err := r.behind(d.number)
		if err != nil {
			return nil, fmt.Errorf("%s in the container: %w", d.path, err)
		}
		if address != nil {
			found = append(found, File{Path: d.path, Kind: kind, Number: d.number, PCI: *address})
		}
	}
	return found, nil
}

// behind finds the PCI function of a device number in the host's /sys/dev/char;
// NVIDIA's by the minor that its driver publishes in /proc, VFIO's by the IOMMU group.
func (r *Reader) behind(number string) (FileKind, *model.PCIAddress, error) {
	major, minor, _ := strings.Cut(number, ":")
	if major == nvidiaMajor {
		n, err := strconv.Atoi(minor)
		if err != nil || n >= nvidiaForAll {
			return "", nil, nil
		}
		a, ok := r.gpus[n]
		if !ok {
			return "", nil, fmt.Errorf("device %s: NVIDIA's driver does not say in /proc/%s which GPU that is", number, nvidiaDirPath)
		}
		return FileGPU, &a, nil
	}
	target, err := r.sys.ReadLink("dev/char/" + number)
	if err != nil {
		return "", nil, nil // of a driver without sysfs: it has no place
	}
	switch path.Base(path.Dir(target)) {
	case "infiniband_verbs", "infiniband_mad":
		return FileRDMA, r.rdmaPCI(target), nil
	case "drm", "accel":
		return FileGPU, pciOf(target), nil
	case "vfio":
		return FileVFIO, r.groupMember(path.Base(target)), nil
	}
	return "", nil, nil
}

// rdmaPCI is also that of a device made of software, which sits on an interface
// (/sys/class/infiniband/*/parent).
func (r *Reader) rdmaPCI(target string) *model.PCIAddress {
	if a := pciOf(target); a != nil {
		return a
	}
	name, err := r.attribute(path.Join("class", path.Base(path.Dir(target)), path.Base(target), "ibdev"))
	if err != nil {
		return nil
	}
	parent, err := r.attribute("class/infiniband/" + name + "/parent")
	if err != nil {
		return nil
	}
	link, err := r.sys.ReadLink("class/net/" + parent)
	if err != nil {
		return nil
	}
	return pciOf(link)
}

// groupMember is the first PCI function of an IOMMU group.
func (r *Reader) groupMember(group string) *model.PCIAddress {
	entries, err := r.sys.ReadDir("kernel/iommu_groups/" + group + "/devices")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if a, err := model.ParsePCIAddress(e.Name()); err == nil {
			return &a
		}
	}
	return nil
}

// gpuMinors asks NVIDIA's driver which /dev/nvidiaN is which GPU; nil where that
// driver is not.
func (r *Reader) gpuMinors() map[int]model.PCIAddress {
	entries, err := r.proc.ReadDir(nvidiaDirPath)
	if err != nil {
		return nil
	}
	minors := map[int]model.PCIAddress{}
	for _, e := range entries {
		address, err := model.ParsePCIAddress(e.Name())
		if err != nil {
			continue
		}
		text, err := r.read(nvidiaDirPath + "/" + e.Name() + "/information")
		if err != nil {
			continue
		}
		if minor, err := procfs.ParseGPUMinor(text); err == nil {
			minors[minor] = address
		}
	}
	return minors
}

// attribute reads a short file of the host's sysfs.
func (r *Reader) attribute(name string) (string, error) {
	var buf [256]byte
	n, err := r.sys.ReadAttribute(name, buf[:])
	return strings.TrimSpace(string(buf[:n])), err
}
