// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package guesttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"plumbline.dev/plumbline/lab/vm/initramfs"
)

// testPackage is one package whose tests are to run.
type testPackage struct {
	// Dir is its folder below the checkout, with slashes.
	Dir string
	// Binary is its test binary on this host.
	Binary string
	// NIC says that its tests take the flag -physical-nic.
	NIC bool
}

// guestSource is where the guest has its excerpt of the checkout. Tests read
// what lies beside them by relative path.
const guestSource = "/src"

// build compiles the tests of the packages that have any, statically, into dir.
func build(ctx context.Context, source, dir string, patterns []string) ([]testPackage, error) {
	packages, err := list(ctx, source, patterns)
	if err != nil {
		return nil, err
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("none of %s has tests", strings.Join(patterns, ", "))
	}
	args := []string{"test", "-c", "-trimpath", "-ldflags", "-s -w", "-tags", "grpcnotrace,nri_no_wasm", "-o", dir + "/"}
	for i, p := range packages {
		packages[i].Binary = filepath.Join(dir, path.Base(p.Dir)+".test")
		args = append(args, "./"+p.Dir)
	}
	_, err = goCommand(ctx, source, args...)
	return packages, err
}

// list finds the packages with tests.
func list(ctx context.Context, source string, patterns []string) ([]testPackage, error) {
	out, err := goCommand(ctx, source, append([]string{"list", "-json=Dir,TestGoFiles,XTestGoFiles"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var packages []testPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir                       string
			TestGoFiles, XTestGoFiles []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read package list: %w", err)
		}
		files := append(p.TestGoFiles, p.XTestGoFiles...)
		if len(files) == 0 {
			continue
		}
		below, err := filepath.Rel(source, p.Dir)
		if err != nil {
			return nil, fmt.Errorf("place package: %w", err)
		}
		nic, err := takesNIC(p.Dir, files)
		if err != nil {
			return nil, err
		}
		packages = append(packages, testPackage{Dir: filepath.ToSlash(below), NIC: nic})
	}
}

// takesNIC says whether one of the test files declares the flag that names a
// NIC to be lost. A test binary refuses flags that it does not have.
func takesNIC(dir string, files []string) (bool, error) {
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return false, err
		}
		if bytes.Contains(text, []byte(`flag.String("`+nicFlag+`"`)) {
			return true, nil
		}
	}
	return false, nil
}

func goCommand(ctx context.Context, source string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// excerpt is what the guest gets of the checkout: the binaries, each in its
// package's folder, every testdata folder, the documents that tests read, and
// the file by which they find the checkout's root.
func excerpt(source string, packages []testPackage) (initramfs.Files, error) {
	files := initramfs.Files{path.Join(guestSource, "go.mod"): {Source: filepath.Join(source, "go.mod")}}
	for _, p := range packages {
		files[path.Join(guestSource, p.Dir, path.Base(p.Binary))] = initramfs.File{Source: p.Binary, Mode: 0o755}
	}
	for _, top := range []string{"internal", "docs", "machines"} {
		err := filepath.WalkDir(filepath.Join(source, top), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			below, err := filepath.Rel(source, name)
			if err != nil {
				return err
			}
			if top != "internal" || strings.Contains(below, "/testdata/") {
				files[path.Join(guestSource, filepath.ToSlash(below))] = initramfs.File{Source: name}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("gather tests' files: %w", err)
		}
	}
	return files, nil
}
