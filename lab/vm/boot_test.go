// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/machine/facts"
	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/debian"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/progress"
	"plumbline.dev/plumbline/lab/vm"
	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/shape"
)

var (
	cacheDir = flag.String("cache", "../../.cache", "the lab's cache, in which `plumblab up` left kernel, busybox and QEMU")
	machines = flag.String("machines", "a3-ultragpu-8g", "machine files to boot, separated by commas")
)

// patience is how long a guest may take; emulated on an idle machine it is up
// in ten seconds.
const patience = 5 * time.Minute

// tools returns a configuration with the lab's own QEMU, kernel and userland,
// and skips where they have not been fetched: tests download nothing.
func tools(t *testing.T) vm.Config {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a virtual machine, which takes most of a minute: not in short mode")
	}
	for _, name := range []string{"kernel", "busybox"} {
		if found, _ := filepath.Glob(filepath.Join(*cacheDir, "store", name, "*", "*")); len(found) == 0 {
			t.Skipf("boots a virtual machine: %s has no %s yet, `plumblab up` brings it", *cacheDir, name)
		}
	}
	kept, err := cache.Open(*cacheDir)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := debian.Open(kept, progress.New(t.Output(), false, time.Now))
	if err != nil {
		t.Skip(err)
	}
	emulator, err := archive.QEMU(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := vm.Config{QEMU: vm.Program(emulator), CPUs: vm.DefaultCPUs, MemoryMiB: 4096, Name: "node", Init: filepath.Join(t.TempDir(), "guest-init")}
	if c.Kernel, c.ModulesDir, err = archive.Kernel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Busybox, err = archive.Busybox(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Applets, err = image.Applets(t.Context(), c.Busybox); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", c.Init, "plumbline.dev/plumbline/lab/cmd/guest-init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build guest-init: %v\n%s", err, out)
	}
	return c
}

// boot starts the machine and waits until it is up.
func boot(t *testing.T, c vm.Config) *vm.VM {
	t.Helper()
	c.Dir = t.TempDir()
	booting, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	v, deviations, err := vm.Boot(booting, c, func(why error) { t.Log("started again:", why) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if running, err := v.Running(); err != nil || running {
			t.Errorf("running %v after Stop: %v", running, err)
		}
	})
	t.Log(strings.Join(deviations, "\n"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := v.Wait(ctx, guest.Started); err != nil {
		t.Fatal(err)
	}
	return v
}

func load(t *testing.T, name string) *vm.Shape {
	t.Helper()
	f, err := facts.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := shape.FromFacts(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a shell command in the guest and returns what it printed.
func run(t *testing.T, v *vm.VM, script string) string {
	t.Helper()
	r, err := v.Exec(t.Context(), guest.Request{Argv: []string{"/bin/sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(r.Stdout) + string(r.Stderr))
}

// TestKVMProbe says whether hardware virtualisation works here; both answers
// are right.
func TestKVMProbe(t *testing.T) {
	c := tools(t)
	c.Dir = t.TempDir()
	known := filepath.Join(c.Dir, "kvm")
	works, why, err := vm.KVM(t.Context(), c, known)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("works: %v %s", works, why)
	c.Init = "gone, so a second answer comes from the file"
	if again, _, err := vm.KVM(t.Context(), c, known); err != nil || again != works {
		t.Errorf("second answer: %v %v", again, err)
	}
}
