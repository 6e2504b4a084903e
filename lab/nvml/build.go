// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/progress"
)

// standIn is the stand-in's source.
//
//go:embed library
var standIn embed.FS

// bindings is the module that has NVIDIA's own header of NVML.
const bindings = "github.com/NVIDIA/go-nvml"

// Build returns the library, compiled if it is not in the cache. source is the checkout's
// root folder, whose module of the lab pins the header.
func Build(ctx context.Context, c *cache.Cache, p *progress.Printer, source string) (string, error) {
	const title = "stand-in for " + LibraryName
	compiler, err := output(exec.CommandContext(ctx, "gcc", "-dumpfullversion", "-dumpmachine"))
	if err != nil {
		return "", fmt.Errorf("%s: %w", title, err)
	}
	include, err := headerFolder(ctx, filepath.Join(source, "lab"))
	if err != nil {
		return "", fmt.Errorf("%s: %w", title, err)
	}
	header, err := os.ReadFile(filepath.Join(include, "nvml.h"))
	if err != nil {
		return "", fmt.Errorf("%s: %w", title, err)
	}
	key := new(cache.Key).Add(string(compiler), string(header)).Add(compilerFlags...)
	for _, f := range sources(header) {
		key.Add(f.name, string(f.text))
	}
	dir, err := c.Do(ctx, p, cache.Step{
		Name: "nvml-standin", Title: title, Done: "built", Key: key.String(),
		Make: func(ctx context.Context, out string) error { return compile(ctx, include, out) },
	})
	return filepath.Join(dir, LibraryName), err
}

// headerFolder finds nvml.h in the module that the module in dir pins, downloading it
// where it is missing.
func headerFolder(ctx context.Context, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", bindings)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	out, err := output(cmd)
	if err != nil {
		return "", err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return filepath.Join(module.Dir, "pkg", "nvml"), nil
}

// compilerFlags decide the result. A warning does not fail the build: another release of
// gcc has others.
var compilerFlags = []string{
	"-shared", "-fPIC", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wl,-soname," + LibraryName,
}

// compile makes the library in the folder out, with nvml.h from the folder include.
func compile(ctx context.Context, include, out string, more ...string) error {
	header, err := os.ReadFile(filepath.Join(include, "nvml.h"))
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "nvml-standin-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	args := append(slices.Clone(compilerFlags), more...)
	args = append(args, "-I", include, "-o", filepath.Join(out, LibraryName))
	for _, f := range sources(header) {
		path := filepath.Join(folder, f.name)
		if err := os.WriteFile(path, f.text, 0o644); err != nil {
			return err
		}
		if filepath.Ext(path) == ".c" {
			args = append(args, path)
		}
	}
	// dladdr and threads are in libraries of their own before glibc 2.34.
	_, err = output(exec.CommandContext(ctx, "gcc", append(args, "-ldl", "-lpthread")...))
	return err
}

// sourceFile is a file of the stand-in's.
type sourceFile struct {
	name string
	text []byte
}

// sources are the files to compile, with what is made of NVML's header.
func sources(header []byte) []sourceFile {
	all := []sourceFile{{"unsupported.c", unsupported(header)}}
	entries, err := standIn.ReadDir("library")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range entries {
		text, err := standIn.ReadFile("library/" + e.Name())
		if err != nil {
			panic(err)
		}
		all = append(all, sourceFile{e.Name(), text})
	}
	return all
}

var declaration = regexp.MustCompile(`\bDECLDIR\b[ \w*]*?\b(nvml\w+) *\(`)

// unsupported is the source of all functions that the header declares, each of which says
// that it is not supported. They are weak: those of the stand-in stand before them. A
// function that is missing would end the process that calls it.
func unsupported(header []byte) []byte {
	var names []string
	for _, found := range declaration.FindAllSubmatch(header, -1) {
		names = append(names, string(found[1]))
	}
	slices.Sort(names)
	var text bytes.Buffer
	text.WriteString("enum { NVML_ERROR_NOT_SUPPORTED = 3 };\n")
	for _, name := range slices.Compact(names) {
		fmt.Fprintf(&text, "__attribute__((weak)) int %s(void) { return NVML_ERROR_NOT_SUPPORTED; }\n", name)
	}
	return text.Bytes()
}

// output runs a command and returns what it printed; its complaint becomes the error's
// text.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
	return out, nil
}

// BuildCUDA returns a library of CUDA's name with nothing in it, which shows NVIDIA's
// programs where the driver's libraries are and of what release.
func BuildCUDA(ctx context.Context, c *cache.Cache, p *progress.Printer) (string, error) {
	const title, name = "stand-in for libcuda.so.1", "libcuda.so." + DriverVersion
	args := []string{"-shared", "-nostdlib", "-Wl,-soname,libcuda.so.1", "-x", "c", "/dev/null", "-o"}
	dir, err := c.Do(ctx, p, cache.Step{
		Name: "cuda-standin", Title: title, Done: "built", Key: new(cache.Key).Add(DriverVersion).Add(args...).String(),
		Make: func(ctx context.Context, out string) error {
			_, err := output(exec.CommandContext(ctx, "gcc", append(args, filepath.Join(out, name))...))
			return err
		},
	})
	return filepath.Join(dir, name), err
}
