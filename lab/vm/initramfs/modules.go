// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package initramfs

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/xi2/xz"
)

// Modules are the kernel modules of one kernel release. A distribution's
// package carries no modules.dep (depmod writes it at installation), so
// dependencies are read from the modules themselves.
type Modules struct {
	dir string
	// files are paths below dir by module name.
	files   map[string]string
	builtin map[string]bool
}

// OpenModules reads a folder like /lib/modules/6.1.0-56-amd64.
func OpenModules(dir string) (*Modules, error) {
	m := &Modules{dir: dir, files: map[string]string{}, builtin: map[string]bool{}}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(strings.TrimSuffix(p, Packed), ".ko") || !d.Type().IsRegular() {
			return err
		}
		m.files[moduleName(p)] = p
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list kernel modules: %w", err)
	}
	list, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, fmt.Errorf("list built-in modules: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(list))
	for lines.Scan() {
		m.builtin[moduleName(lines.Text())] = true
	}
	return m, lines.Err()
}

// Packed ends the name of a module file that is compressed, as newer releases
// have them.
const Packed = ".xz"

// unpackLimit is the most memory that a module's compression may ask for.
const unpackLimit = 64 << 20

// inKernel are modules of older kernels that are part of newer ones without a line
// in their list (arch/x86/lib/crc32*, lib/crc since Linux 6.14).
var inKernel = []string{"crc32_generic", "crc32c_generic"}

// moduleName is how the kernel calls the module in a file: dashes are
// underscores.
func moduleName(file string) string {
	name := strings.TrimSuffix(strings.TrimSuffix(path.Base(file), Packed), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// Load returns the files of the named modules and of all they need, each after
// what it needs. Built-in modules need no file.
func (m *Modules) Load(names ...string) ([]string, error) {
	var order []string
	state := map[string]int{} // 1: being visited, 2: done
	var visit func(name, wantedBy string) error
	visit = func(name, wantedBy string) error {
		name = strings.ReplaceAll(name, "-", "_")
		if m.builtin[name] || state[name] != 0 {
			return nil
		}
		file, ok := m.files[name]
		if !ok && slices.Contains(inKernel, name) {
			return nil
		}
		if !ok {
			return fmt.Errorf("find kernel module %s, needed by %s: not below %s", name, wantedBy, m.dir)
		}
		state[name] = 1
		needs, err := dependencies(file)
		if err != nil {
			return fmt.Errorf("read kernel module %s: %w", name, err)
		}
		for _, need := range needs {
			if err := visit(need, name); err != nil {
				return err
			}
		}
		state[name] = 2
		order = append(order, file)
		return nil
	}
	for _, name := range names {
		if err := visit(name, "the guest"); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// dependencies reads the depends= line of a module's .modinfo section
// (scripts/mod/modpost.c).
func dependencies(file string) ([]string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(file, Packed) {
		r, err := xz.NewReader(bytes.NewReader(content), unpackLimit)
		if err != nil {
			return nil, err
		}
		if content, err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no .modinfo section")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	return parseDepends(info), nil
}

func parseDepends(info []byte) []string {
	for line := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := bytes.CutPrefix(line, []byte("depends=")); ok && len(list) > 0 {
			return strings.Split(string(list), ",")
		}
	}
	return nil
}
