// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// The kernel's own bounds: NR_CPUS and MAX_NUMNODES of the largest
// configurations (arch/x86/Kconfig, include/linux/numa.h).
const (
	maxCPU      = 8191
	maxNUMANode = 1023
)

// The kernel's dev_valid_name allows more, but a name here becomes a directory.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

func (p *parser) deviceName(into *string) reader {
	return p.scalar(func() { *into = "" }, func(s string) error {
		if !namePattern.MatchString(s) {
			return fmt.Errorf("want a device's name of letters, digits, '_', '-' and '.', such as mlx5_0, or null")
		}
		*into = s
		return nil
	})
}

// MaxInterfaceName is IFNAMSIZ less the end (include/uapi/linux/if.h).
const MaxInterfaceName = 15

// interfaceName is a device's name of at most MaxInterfaceName bytes.
func (p *parser) interfaceName(into *string) reader {
	return func(field string, n *yaml.Node) {
		p.deviceName(into)(field, n)
		if *into == "lo" {
			p.add(n.Line, field, "lo is the loopback interface's name")
		}
		if len(*into) > MaxInterfaceName {
			p.add(n.Line, field, "%q: an interface's name has at most %d characters", *into, MaxInterfaceName)
		}
	}
}

// numa reads a device's node; -1 is the kernel's word for unknown.
func (p *parser) numa(into **int) reader {
	return func(field string, n *yaml.Node) {
		p.integer(into, -1, maxNUMANode)(field, n)
		if *into != nil && **into == -1 {
			*into = nil
		}
	}
}

func (p *parser) memory(into **uint64) reader {
	return func(field string, n *yaml.Node) {
		var v *int
		p.integer(&v, 1, math.MaxInt32)(field, n)
		*into = nil
		if v != nil {
			u := uint64(*v)
			*into = &u
		}
	}
}

func (p *parser) gbps(into **int) reader {
	return p.scalar(func() { *into = nil }, func(s string) error {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v > 0 && v <= 1e5) || v*1000 != math.Trunc(v*1000) {
			return fmt.Errorf("want a speed in Gbit/s, such as 400, or null when unknown")
		}
		mbps := int(v * 1000)
		*into = &mbps
		return nil
	})
}

func (p *parser) address(into **model.PCIAddress) reader {
	return p.scalar(func() { *into = nil }, func(s string) error {
		a, err := model.ParsePCIAddress(s)
		if err != nil {
			return fmt.Errorf("want domain:bus:device.function, such as 0000:8f:00.0")
		}
		*into = &a
		return nil
	})
}

func (p *parser) rootName(into *string) reader {
	return p.scalar(func() { *into = "" }, func(s string) error {
		if _, _, ok := RootNumbers(s); !ok {
			return fmt.Errorf("want a PCI root bus, such as pci0000:8c, or null where there is none")
		}
		*into = s
		return nil
	})
}

func (p *parser) class(into *uint32) reader {
	return p.scalar(func() { *into = 0 }, func(s string) error {
		v, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 24)
		if err != nil || len(s) != len("0x020000") || !strings.HasPrefix(s, "0x") || v == 0 {
			return fmt.Errorf("want a class code of six digits, such as 0x020000")
		}
		*into = uint32(v)
		return nil
	})
}

var pciIDPattern = regexp.MustCompile(`^([0-9a-f]{4}):([0-9a-f]{4})$`)

func (p *parser) pciID(into **PCIID) reader {
	return p.scalar(func() { *into = nil }, func(s string) error {
		m := pciIDPattern.FindStringSubmatch(s)
		if m == nil {
			return fmt.Errorf("want vendor:device, such as 10de:2335, or null when unknown")
		}
		vendor, _ := strconv.ParseUint(m[1], 16, 16)
		device, _ := strconv.ParseUint(m[2], 16, 16)
		*into = &PCIID{Vendor: uint16(vendor), Device: uint16(device)}
		return nil
	})
}

var linkPattern = regexp.MustCompile(`^(2\.5|5|8|16|32|64)(?:\.0)? GT/s(?: x(1|2|4|8|12|16|32))?$`)

func (p *parser) link(into **Link) reader {
	return p.scalar(func() { *into = nil }, func(s string) error {
		m := linkPattern.FindStringSubmatch(s)
		if m == nil {
			return fmt.Errorf("want a PCIe speed and width, such as \"32.0 GT/s x16\", or null when unknown")
		}
		speed, _ := strconv.ParseFloat(m[1], 64)
		width, _ := strconv.Atoi(m[2])
		*into = &Link{SpeedMTs: int(speed * 1000), Width: width}
		return nil
	})
}

func (p *parser) cpulist(into **cpuset.CPUSet) reader {
	return p.scalar(func() { *into = nil }, func(s string) error {
		set, err := parseList(s, maxCPU)
		if err != nil {
			return err
		}
		*into = &set
		return nil
	})
}

// nodeList reads NUMA node IDs: one number, or a range like "2-33".
func (p *parser) nodeList(into *[]int) reader {
	return p.scalar(func() { *into = nil }, func(s string) error {
		if s == "-1" {
			*into = nil
			return nil
		}
		set, err := parseList(s, maxNUMANode)
		if err != nil {
			return err
		}
		*into = set.List()
		return nil
	})
}

var listPattern = regexp.MustCompile(`^(\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*)?$`)

// parseList reads the kernel's list form, such as "0-55,112-167", bounded
// before it is expanded.
func parseList(s string, highest int) (cpuset.CPUSet, error) {
	want := fmt.Errorf("want a list of numbers up to %d, such as 0-55,112-167", highest)
	if !listPattern.MatchString(s) {
		return cpuset.New(), want
	}
	for _, number := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '-' }) {
		if v, err := strconv.Atoi(number); err != nil || v > highest {
			return cpuset.New(), want
		}
	}
	set, err := cpuset.Parse(s)
	if err != nil {
		return cpuset.New(), want
	}
	return set, nil
}
