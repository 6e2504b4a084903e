// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nccltopo

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model"
)

// Largest numbers of a NUMA node, with room, and of words in a mask of CPUs that Linux can
// be built for (CONFIG_NODES_SHIFT, CONFIG_NR_CPUS).
const (
	maxNode      = 1 << 16
	maxMaskWords = 1 << 8
)

// attributes are those of one element. A reader of one that is not there answers nil or
// zero, unless the format wants it.
type attributes map[string]string

// quote shortens what a file says, for an error.
func quote(text string) string {
	if len(text) > 64 {
		text = text[:64] + "…"
	}
	return strconv.Quote(text)
}

func (a attributes) integer(name string, least, most int) (*int, error) {
	text, ok := a[name]
	if !ok {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return nil, fmt.Errorf("%s %s: want a number from %d to %d", name, quote(text), least, most)
	}
	return &n, nil
}

func (a attributes) address(name string) (model.PCIAddress, error) {
	text, ok := a[name]
	if !ok {
		return model.PCIAddress{}, fmt.Errorf("%s is missing", name)
	}
	address, err := model.ParsePCIAddress(strings.ToLower(text))
	if err != nil {
		return model.PCIAddress{}, fmt.Errorf("%s %s: want domain:bus:device.function, such as 0000:8f:00.0", name, quote(text))
	}
	return address, nil
}

// hex reads hexadecimal digits behind 0x.
func (a attributes) hex(name string, digits ...int) (value uint64, length int, err error) {
	text := a[name]
	rest, ok := strings.CutPrefix(text, "0x")
	if ok && len(rest) <= digits[len(digits)-1] {
		value, err = strconv.ParseUint(rest, 16, 32)
		for _, n := range digits {
			if err == nil && len(rest) == n {
				return value, n, nil
			}
		}
	}
	return 0, 0, fmt.Errorf("%s %s: want 0x and %d hexadecimal digits", name, quote(text), digits[len(digits)-1])
}

// class is a class code, of which the last bytes may be missing.
func (a attributes) class(name string) (uint32, error) {
	if _, ok := a[name]; !ok {
		return 0, fmt.Errorf("%s is missing", name)
	}
	value, length, err := a.hex(name, 2, 4, 6)
	return uint32(value) << (4 * (6 - length)), err
}

func (a attributes) id(name string) (*uint16, error) {
	if _, ok := a[name]; !ok {
		return nil, nil
	}
	value, _, err := a.hex(name, 4)
	if err != nil {
		return nil, err
	}
	id := uint16(value)
	return &id, nil
}

// speed is a link's as sysfs has it ("32.0 GT/s PCIe"), zero where sysfs does not know.
func (a attributes) speed(name string) (int, error) {
	text := a[name]
	if text == "" || strings.HasPrefix(text, "Unknown") {
		return 0, nil
	}
	number, unit, _ := strings.Cut(text, " ")
	gts, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(gts) || gts < 0 || gts > 1024 || unit != "GT/s" && unit != "GT/s PCIe" {
		return 0, fmt.Errorf("%s %s: want a speed such as 32.0 GT/s PCIe", name, quote(text))
	}
	return int(math.Round(gts * 1000)), nil
}

func (a attributes) width(name string) (int, error) {
	if a[name] == "" {
		return 0, nil
	}
	n, err := a.integer(name, 0, 255)
	if err != nil {
		return 0, err
	}
	return *n, nil
}

// mask reads a set of CPUs as the kernel prints masks.
func (a attributes) mask(name string) (*cpuset.CPUSet, error) {
	text, ok := a[name]
	if !ok {
		return nil, nil
	}
	words := strings.Split(text, ",")
	err := errors.New("too long")
	var cpus []int
	for i := 0; i < len(words) && len(words) <= maxMaskWords; i++ {
		var word uint64
		if word, err = strconv.ParseUint(words[i], 16, 32); err != nil {
			break
		}
		for bit := range 32 {
			if word&(1<<bit) != 0 {
				cpus = append(cpus, 32*(len(words)-1-i)+bit)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: want a mask of CPUs such as 00000000,ffffffff", name, quote(text))
	}
	set := cpuset.New(cpus...)
	return &set, nil
}
