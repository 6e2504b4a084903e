// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostsetup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"plumbline.dev/plumbline/internal/atomicfile"
)

// Folder is the folder of an agent's state that the two sides share.
const Folder = "host-setup"

// Files in it.
const (
	requestFile = "request.json"
	answersFile = "answers.json"
	modulesFile = "modules.json"
)

// Request is what is asked, in place of what was asked before. Each kernel's life has its
// own: after a reboot nothing that was set is so any more.
type Request struct {
	BootID string `json:"bootID"`
	// Number counts requests of a boot, from 1.
	Number  int64    `json:"number"`
	Changes []Change `json:"changes"`
}

// answers are what became of the request with that number. Nothing of one before it will
// be carried out any more.
type answers struct {
	BootID  string   `json:"bootID"`
	Number  int64    `json:"number"`
	Answers []answer `json:"answers"`
}

// answer is what became of a change.
type answer struct {
	Change

	// Error is empty where it was made.
	Error string `json:"error,omitempty"`
	// BuiltIn says of a module that the kernel has it without loading it.
	BuiltIn bool `json:"builtIn,omitempty"`
}

// load reads a file into v, and leaves it alone where there is none.
func load(dir, name string, v any) error {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Join(dir, name), err)
	}
	return nil
}

// save writes a file whole.
func save(dir, name string, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, name), 0o600, bytes.NewReader(text))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(dir, name), err)
	}
	return nil
}
