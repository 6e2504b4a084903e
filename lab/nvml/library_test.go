// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// library compiles the stand-in and gives it a table, found as it is in a driver's root.
// The bindings are those that NVIDIA's DRA driver asks through.
func library(t *testing.T, text string) (lib gonvml.Interface, root string) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("the stand-in is C: %v; install gcc and libc6-dev", err)
	}
	root = t.TempDir()
	folder := filepath.Join(root, "usr", "lib")
	write(t, filepath.Join(root, TablePath), text)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	include, err := headerFolder(context.Background(), "..")
	if err != nil {
		t.Fatal(err)
	}
	if err := compile(context.Background(), include, folder, "-Werror"); err != nil {
		t.Fatal(err)
	}
	return gonvml.New(gonvml.WithLibraryPath(filepath.Join(folder, LibraryName))), root
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// initialise begins, and ends with the test.
func initialise(t *testing.T, lib gonvml.Interface) {
	t.Helper()
	if ret := lib.InitWithFlags(gonvml.INIT_FLAG_NO_GPUS); ret != gonvml.SUCCESS {
		t.Fatalf("init: %v", ret)
	}
	t.Cleanup(func() {
		if ret := lib.Shutdown(); ret != gonvml.SUCCESS {
			t.Errorf("shutdown: %v", ret)
		}
	})
}

// value is an answer that must come.
func value[T any](t *testing.T, got T, ret gonvml.Return) T {
	t.Helper()
	if ret != gonvml.SUCCESS {
		t.Fatalf("asked for a %T: %v", got, ret)
	}
	return got
}

func byIndex(t *testing.T, lib gonvml.Interface, index int) gonvml.Device {
	t.Helper()
	d, ret := lib.DeviceGetHandleByIndex(index)
	return value(t, d, ret)
}

func TestSystem(t *testing.T) {
	lib, _ := library(t, table(t, "a3-ultragpu-8g", "node-a"))
	initialise(t, lib)
	driver, ret := lib.SystemGetDriverVersion()
	nvml, ret2 := lib.SystemGetNVMLVersion()
	cuda, ret3 := lib.SystemGetCudaDriverVersion()
	got := fmt.Sprint(value(t, driver, ret), " ", value(t, nvml, ret2), " ", value(t, cuda, ret3))
	if want := "580.126.20 13.580.126.20 13000"; got != want {
		t.Errorf("driver, NVML and CUDA are %s, want %s", got, want)
	}
	if got := lib.ErrorString(gonvml.ERROR_GPU_IS_LOST); got != "GPU is lost" {
		t.Errorf("error string: %s", got)
	}
}
