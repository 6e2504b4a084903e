// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

func realKernel(t *testing.T) *Reader {
	t.Helper()
	r, err := Open(Options{Proc: "/proc", Sys: "/sys"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// child runs a script in network and mount namespaces of its own, which says
// "ready" and then waits.
func child(t *testing.T, script string) int {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making namespaces needs root")
	}
	cmd := exec.Command("sh", "-c", "set -e; mount --make-rprivate /; "+script+"; echo ready; exec sleep 60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the child says %q: %v", line, err)
	}
	return cmd.Process.Pid
}

// seen are the interfaces of a process.
func seen(r *Reader, pid int) ([]Interface, error) {
	v := viewPod(r.options, []int{pid}, nil)[0]
	n := r.network(&Container{Processes: []Process{{PID: pid}}}, &v)
	return n.Interfaces, n.Err
}

func TestKernelInterfaces(t *testing.T) {
	r := realKernel(t)
	pid := child(t, "ip link add left type veth peer name right; mount -t sysfs sysfs /sys")
	interfaces, err := seen(r, pid)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range interfaces {
		names = append(names, i.Name)
		if i.PCI != nil || len(i.MAC) != len("02:00:00:00:00:01") {
			t.Errorf("%s is said to be at %s, with the address %q", i.Name, i.PCI, i.MAC)
		}
	}
	// busybox' ip, as the guest has it, chooses the other end's name itself.
	if !slices.Contains(names, "left") || !slices.Contains(names, "lo") || len(names) != 3 {
		t.Errorf("interfaces %q, want lo, left and its other end", names)
	}
}

// A sysfs of another namespace than the process' is not believed, nor anything
// else that lies at /sys.
func TestKernelForeignSysfs(t *testing.T) {
	r := realKernel(t)
	if _, err := seen(r, child(t, "ip link add left type veth peer name right")); err == nil || !strings.Contains(err.Error(), "another network namespace") {
		t.Errorf("the host's sysfs: %v", err)
	}
	if _, err := seen(r, child(t, "mount -t tmpfs tmpfs /sys; mkdir -p /sys/class/net; ln -s ../../devices/pci0000:00/0000:00:01.0/net/lo /sys/class/net/lo")); err == nil ||
		!strings.Contains(err.Error(), "is not the kernel's") {
		t.Errorf("a pod's own files: %v", err)
	}
}

func TestKernelProcess(t *testing.T) {
	r := realKernel(t)
	p, err := r.process(os.Getpid(), nil, map[threadKey]uint64{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Allowed.CPUs.IsEmpty() || p.Allowed.Mems.IsEmpty() || len(p.Threads) == 0 || p.Start == 0 {
		t.Errorf("this process: %+v", p)
	}
	for _, thread := range p.Threads {
		if !p.Allowed.CPUs.Contains(thread.CPU) {
			t.Errorf("thread %d ran on CPU %d of %s", thread.ID, thread.CPU, p.Allowed.CPUs)
		}
	}
	if v := viewPod(r.options, []int{os.Getpid()}, nil)[0]; v.devicesErr != nil {
		t.Errorf("device files: %v", v.devicesErr)
	}
	var gone Container
	r.container(&gone, "x", []int{1 << 22})
	if !errors.Is(gone.Err, ErrGone) {
		t.Errorf("a process that is not there: %v", gone.Err)
	}
}

// TestKernelContainer makes a control group such as a container's, in the virtual
// machine: on a host that is not ours no group is made.
func TestKernelContainer(t *testing.T) {
	if !hosttest.OnGuest() {
		t.Skip("makes a control group: only in the lab's virtual machine (plumblab guest-test)")
	}
	id, uid := strings.Repeat("0a", 32), "0-verify-test"
	pod := filepath.Join("/sys/fs/cgroup", "pod"+uid)
	group := filepath.Join(pod, id)
	if err := os.MkdirAll(pod, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(pod) })
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(pod, "cgroup.subtree_control"), "+cpuset")
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(group) })
	pid := child(t, "mount -t sysfs sysfs /sys")
	write(filepath.Join(group, "cgroup.procs"), strconv.Itoa(pid))
	write(filepath.Join(group, "cpuset.cpus"), "1")
	write(filepath.Join(group, "cpuset.mems"), "0")
	found := realKernel(t).Scan(t.Context(), []Target{{UID: uid, Containers: []TargetContainer{{Name: "main", ID: id}}}}, true)[0]
	c := found.Containers[0]
	if c.Err != nil || c.GrantedErr != nil || found.Network.Err != nil {
		t.Fatalf("%v, %v, %v", c.Err, c.GrantedErr, found.Network.Err)
	}
	if c.Granted.CPUs.String() != "1" || c.Granted.Mems.String() != "0" || len(c.Processes) != 1 || c.Processes[0].Allowed.CPUs.String() != "1" {
		t.Errorf("granted %+v, processes %+v", c.Granted, c.Processes)
	}
}

func TestForgetPairs(t *testing.T) {
	got := map[string]virtual{
		"left": {index: 5, below: 6}, "right": {index: 6, below: 5},
		"eth0": {index: 2, below: 9}, "child": {index: 7, below: 2}, "lo": {index: 1},
		// Its NIC has the same index, on the host.
		"net1": {index: 3, below: 3},
	}
	forgetPairs(got)
	for name, want := range map[string]int{"left": 0, "right": 0, "eth0": 9, "child": 2, "lo": 0, "net1": 3} {
		if got[name].below != want {
			t.Errorf("%s lies above %d, want %d", name, got[name].below, want)
		}
	}
}

// A pod's link and the NIC below it, in the host's namespace, may well have one index: both are
// often their namespace's third. A link that stands on none names itself.
func TestVirtualOf(t *testing.T) {
	for _, tc := range []struct {
		uevent, iflink string
		want           virtual
	}{
		{"INTERFACE=net1\nIFINDEX=3\nDEVTYPE=macvlan\n", "3", virtual{index: 3, below: 3, mac: "02:00:00:00:00:01", alias: "plumbline-a", kind: "macvlan", up: true}},
		{"DEVTYPE=vlan\nINTERFACE=net1\nIFINDEX=3\n", "2", virtual{index: 3, below: 2, mac: "02:00:00:00:00:01", alias: "plumbline-a", kind: "vlan", up: true}},
		{"DEVTYPE=bridge\nINTERFACE=net1\nIFINDEX=3\n", "3", virtual{index: 3, mac: "02:00:00:00:00:01"}},
		{"INTERFACE=net1\nIFINDEX=3\n", "3", virtual{index: 3, mac: "02:00:00:00:00:01"}},
	} {
		class := t.TempDir()
		if err := os.Mkdir(filepath.Join(class, "net1"), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{
			"address": "02:00:00:00:00:01\n", "ifindex": "3\n", "iflink": tc.iflink + "\n", "ifalias": "plumbline-a\n", "flags": "0x1003\n", "uevent": tc.uevent,
		} {
			if err := os.WriteFile(filepath.Join(class, "net1", file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		dir, err := os.Open(class)
		if err != nil {
			t.Fatal(err)
		}
		if got := virtualOf(dir, "net1"); got != tc.want {
			t.Errorf("%q on %s: got %+v, want %+v", tc.uevent, tc.iflink, got, tc.want)
		}
		_ = dir.Close()
	}
}
