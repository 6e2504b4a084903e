// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/xi2/xz"
)

// Fields of the boot image's setup header (Documentation/x86/boot.rst).
const (
	setupSectors  = 0x1f1 // one byte: 512-byte sectors of real-mode code
	headerMagic   = 0x202 // "HdrS"
	payloadOffset = 0x248 // four bytes, from the end of the real-mode code
	payloadLength = 0x24c // four bytes
	headerEnd     = 0x250
)

// dictionary is the most memory the kernel's compression may ask for; the
// kernel's own Makefile chooses 32 MiB.
const dictionary = 64 << 20

// ErrOther says that a boot image is packed in a way not known here. Such an
// image can still be booted as it is.
var ErrOther = errors.New("no xz-compressed Linux boot image")

// Extract writes the kernel inside the boot image to w, as ELF.
func Extract(w io.Writer, image []byte) error {
	payload, err := payload(image)
	if err != nil {
		return err
	}
	// Four bytes behind the stream repeat the unpacked size.
	stream := payload[:len(payload)-4]
	if !bytes.HasPrefix(stream, []byte("\xfd7zXZ\x00")) {
		return fmt.Errorf("unpack kernel: payload begins with % x: %w", stream[:min(6, len(stream))], ErrOther)
	}
	want := binary.LittleEndian.Uint32(payload[len(payload)-4:])
	r, err := xz.NewReader(bytes.NewReader(stream), dictionary)
	if err != nil {
		return fmt.Errorf("unpack kernel: %w", err)
	}
	n, err := io.Copy(w, r)
	if err != nil {
		return fmt.Errorf("unpack kernel: %w", err)
	}
	if n != int64(want) {
		return fmt.Errorf("unpack kernel: got %d bytes, and the image promises %d", n, want)
	}
	return nil
}

// payload finds the compressed kernel in a boot image.
func payload(image []byte) ([]byte, error) {
	if len(image) < headerEnd || string(image[headerMagic:headerMagic+4]) != "HdrS" {
		return nil, fmt.Errorf("read boot image: no setup header: %w", ErrOther)
	}
	sectors := int64(image[setupSectors])
	if sectors == 0 {
		sectors = 4 // as old boot loaders must assume
	}
	start := (sectors+1)*512 + int64(binary.LittleEndian.Uint32(image[payloadOffset:]))
	end := start + int64(binary.LittleEndian.Uint32(image[payloadLength:]))
	if end > int64(len(image)) || end-start < 4 {
		return nil, fmt.Errorf("read boot image: payload from byte %d to %d of %d: %w", start, end, len(image), ErrOther)
	}
	return image[start:end], nil
}

// ExtractFile unpacks the boot image in a file into another, which appears
// whole or not at all.
func ExtractFile(to, from string) error {
	image, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read boot image: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(to), ".kernel-*")
	if err != nil {
		return fmt.Errorf("unpack kernel: %w", err)
	}
	err = Extract(tmp, image)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
