// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Store holds programs while they are off their links, as pins.
type Store struct {
	// Dir is a directory on a bpffs, such as /sys/fs/bpf/plumbline; it is made
	// when it is needed.
	Dir string
}

// Hold pins the listed programs under a key, and returns the list with their
// names. A key has neither dots, which a bpffs reserves, nor slashes. Holding
// the same again changes nothing.
func (s Store) Hold(key string, list []Attachment) ([]Attachment, error) {
	if len(list) == 0 {
		return nil, nil
	}
	held, err := s.hold(key, list)
	if err != nil {
		return nil, fmt.Errorf("hold eBPF programs in %s: %w", s.Dir, err)
	}
	return held, nil
}

func (s Store) hold(key string, list []Attachment) ([]Attachment, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if err := s.makeDir(); err != nil {
		return nil, err
	}
	held := make([]Attachment, len(list))
	for i, a := range list {
		a.Held = key + "-" + strconv.Itoa(i)
		if err := s.pin(a); err != nil {
			return nil, fmt.Errorf("%s: %w", a, err)
		}
		held[i] = a
	}
	return held, nil
}

func checkKey(key string) error {
	if key == "" || strings.ContainsAny(key, "./") {
		return fmt.Errorf("key %q: want a name without dots and slashes", key)
	}
	return nil
}

// makeDir creates the directory, and fails outside a bpffs, where a pin would fail with
// a less clear error.
func (s Store) makeDir() error {
	var filesystem unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(s.Dir), &filesystem); err != nil {
		return err
	}
	if filesystem.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("%s is not on a bpffs: mount one there", filepath.Dir(s.Dir))
	}
	if err := os.Mkdir(s.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (s Store) pin(a Attachment) error {
	path := filepath.Join(s.Dir, a.Held)
	if p, err := ebpf.LoadPinnedProgram(path, nil); err == nil {
		same := idOf(p) == a.Program
		if err := p.Close(); err != nil || same {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(a.Program))
	if err != nil {
		return err
	}
	defer closeQuietly(p)
	return p.Pin(path)
}

func idOf(p *ebpf.Program) uint32 {
	info, err := p.Info()
	if err != nil {
		return 0
	}
	id, _ := info.ID()
	return uint32(id)
}

// closeQuietly closes a descriptor of a program, which others may still hold.
func closeQuietly(c io.Closer) { c.Close() }

// Release removes the pins under a key. It is no error when there are none.
func (s Store) Release(key string) error {
	if err := checkKey(key); err != nil {
		return fmt.Errorf("release eBPF programs in %s: %w", s.Dir, err)
	}
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("release eBPF programs: %w", err)
	}
	var errs []error
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), key+"-")
		if _, err := strconv.Atoi(number); ok && err == nil {
			errs = append(errs, os.Remove(filepath.Join(s.Dir, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("release eBPF programs: %w", err)
	}
	return nil
}

// open opens a program that is held, or still attached.
func (s Store) open(a Attachment) (*ebpf.Program, error) {
	if a.Held != "" {
		if p, err := ebpf.LoadPinnedProgram(filepath.Join(s.Dir, a.Held), nil); err == nil {
			return p, nil
		}
	}
	return ebpf.NewProgramFromID(ebpf.ProgramID(a.Program))
}
