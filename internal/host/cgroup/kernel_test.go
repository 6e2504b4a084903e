// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// mounted is where control groups are on every Linux machine.
const mounted = "/sys/fs/cgroup"

// TestKernel moves a process of its own by a group of its own, in the virtual
// machine: on a host that is not ours no group is made.
func TestKernel(t *testing.T) {
	if !hosttest.OnGuest() {
		t.Skip("makes a control group: only in the lab's virtual machine (plumblab guest-test)")
	}
	h, err := Open(mounted)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	if !h.Unified() {
		t.Fatal("the guest has control groups of version 1, want 2")
	}
	dir := filepath.Join(mounted, "plumbline-test")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("/bin/sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	g := group(t, h, "/plumbline-test")
	if err := g.write(controllerCPU, "cgroup.procs", strconv.Itoa(sleeper.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	if n, err := g.Place(Placement{CPUs: cpuset.New(1), Mems: cpuset.New(0)}); err != nil || n != 2 {
		t.Fatalf("%d writes, %v", n, err)
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(sleeper.Process.Pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"Cpus_allowed_list:\t1\n", "Mems_allowed_list:\t0\n"} {
		if !strings.Contains(string(status), line) {
			t.Errorf("the process does not have %q:\n%s", line, status)
		}
	}
	for _, want := range []int{1, 0} { // also where the kernel empties no set of a group with tasks
		if n, err := g.Release(); err != nil || n != want {
			t.Errorf("released by %d writes, %v; want %d", n, err, want)
		}
	}
	free, err := g.Effective()
	if all, allErr := g.Parent().Effective(); err != nil || allErr != nil || !free.CPUs.Equals(all.CPUs) {
		t.Errorf("released, it has %s of %s, %v, %v", free.CPUs, all.CPUs, err, allErr)
	}
	if err := g.write(controllerCPU, "cpu.max", "20000 100000"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if lifted, err := g.LiftQuota(); err != nil || lifted != want {
			t.Errorf("lifted %v, %v; want %v", lifted, err, want)
		}
	}
	if _, err := g.Place(Placement{CPUs: cpuset.New(4000)}); err == nil {
		t.Error("a CPU that there is not was taken")
	}
}
