// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pciconfig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"plumbline.dev/plumbline/internal/model"
)

// Tags of resources in the vital product data (VPD) of a function (drivers/pci/vpd.c).
const (
	vpdLarge    = 0x80 // PCI_VPD_LRDT: a length of two bytes follows
	vpdReadOnly = 0x90 // PCI_VPD_LRDT_RO_DATA
	vpdEnd      = 0x78 // PCI_VPD_SRDT_END, whose low bits are a length
)

// ErrNoKeyword says that a function's VPD has no such keyword among what is read-only.
var ErrNoKeyword = errors.New("no such keyword in the vital product data")

// VPDFile is the path of a function's vital product data below sysfs' root.
func VPDFile(a model.PCIAddress) string { return path.Join("bus/pci/devices", a.String(), "vpd") }

// VPDKeyword reads the value of a keyword, such as V3, among what is read-only in the
// file of a function's vital product data. It reads no further than it must: the kernel
// asks the function for four bytes at a time, each of which may take a millisecond.
func VPDKeyword(files fs.FS, file, keyword string) (string, error) {
	f, err := files.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	// The data is at most 32 KiB (PCI_VPD_MAX_SIZE).
	return keywordIn(io.LimitReader(f, 1<<15), keyword)
}

func keywordIn(r io.Reader, keyword string) (string, error) {
	for {
		tag, length, err := resource(r)
		if err != nil {
			return "", err
		}
		if tag == vpdReadOnly {
			return valueIn(io.LimitReader(r, int64(length)), keyword)
		}
		if tag&^7 == vpdEnd {
			return "", ErrNoKeyword
		}
		if _, err := io.CopyN(io.Discard, r, int64(length)); err != nil {
			return "", cut(err)
		}
	}
}

// resource reads the head of a resource.
func resource(r io.Reader) (tag byte, length int, err error) {
	var head [3]byte
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return 0, 0, cut(err)
	}
	if head[0]&vpdLarge == 0 {
		return head[0], int(head[0] & 7), nil
	}
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return 0, 0, cut(err)
	}
	return head[0], int(binary.LittleEndian.Uint16(head[1:])), nil
}

// valueIn finds a keyword in a resource.
func valueIn(r io.Reader, keyword string) (string, error) {
	for {
		var head [3]byte // two characters and a length
		if _, err := io.ReadFull(r, head[:]); errors.Is(err, io.EOF) {
			return "", ErrNoKeyword
		} else if err != nil {
			return "", cut(err)
		}
		value := make([]byte, head[2])
		if _, err := io.ReadFull(r, value); err != nil {
			return "", cut(err)
		}
		if string(head[:2]) == keyword {
			return string(value), nil
		}
	}
}

// cut says what it means when data ends too soon.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the vital product data ends too soon: %w", io.ErrUnexpectedEOF)
	}
	return err
}
