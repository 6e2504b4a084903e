// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sriovVariable names the interface of a NIC of the lab's virtual machine that can have
// virtual functions.
const sriovVariable = "PLUMBLINE_SRIOV_NIC"

// PhysicalFunction is a NIC that can have virtual functions, and has none when a test
// begins.
type PhysicalFunction struct {
	// Name is its interface, which is up; Address is the function's.
	Name, Address string
}

// NeedSRIOV returns the virtual machine's, and skips the test on any other: its virtual
// functions would be the host's.
func NeedSRIOV(t testing.TB) PhysicalFunction {
	t.Helper()
	name := os.Getenv(sriovVariable)
	if name == "" {
		t.Skipf("needs a virtual machine's NIC with virtual functions, which %s names: plumblab guest-test --guest rdma", sriovVariable)
	}
	device, err := os.Readlink(filepath.Join("/sys/class/net", name, "device"))
	if err != nil {
		t.Fatalf("the virtual machine has no NIC %s: %v", name, err)
	}
	pf := PhysicalFunction{Name: name, Address: filepath.Base(device)}
	if n := pf.count(t); n != 0 {
		t.Fatalf("%s has %d virtual functions, which an earlier test left", name, n)
	}
	t.Cleanup(func() { pf.SetVFs(t, 0) })
	return pf
}

func (p PhysicalFunction) path(names ...string) string {
	return filepath.Join(append([]string{"/sys/bus/pci/devices", p.Address}, names...)...)
}

func (p PhysicalFunction) count(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(p.path("sriov_numvfs"))
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscan(string(text), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// SetVFs gives it another number of virtual functions, through 0, and waits until each has
// an interface. They end with the test. Their addresses are in the order of their numbers.
func (p PhysicalFunction) SetVFs(t testing.TB, n int) (addresses []string) {
	t.Helper()
	if p.count(t) == n {
		return p.AwaitVFs(t, n)
	}
	for _, value := range []int{0, n} {
		if err := os.WriteFile(p.path("sriov_numvfs"), []byte(strconv.Itoa(value)), 0); err != nil {
			t.Fatal(err)
		}
	}
	return p.AwaitVFs(t, n)
}

// AwaitVFs waits until each of so many virtual functions has an interface on the host.
func (p PhysicalFunction) AwaitVFs(t testing.TB, n int) (addresses []string) {
	t.Helper()
	for i := range n {
		link := p.path("virtfn" + strconv.Itoa(i))
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			if names, err := os.ReadDir(filepath.Join(link, "net")); err == nil && len(names) == 1 {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("virtual function %d of %s has no interface: %v, %v", i, p.Name, names, err)
			}
		}
		device, err := os.Readlink(link)
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, filepath.Base(device))
	}
	return addresses
}

// Lend moves the interface of a virtual function of the host into a namespace.
func (p PhysicalFunction) Lend(t testing.TB, address string, to *Namespace) {
	t.Helper()
	names, err := os.ReadDir(filepath.Join("/sys/bus/pci/devices", address, "net"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%s has interfaces %v on the host: %v", address, names, err)
	}
	Host(t, fmt.Sprintf("ip link set %s netns /proc/%d/fd/%d", names[0].Name(), os.Getpid(), to.Fd()))
}

// Host runs one command per line in the machine's own network namespace, on the lab's
// virtual machine alone. A failure fails the test.
func Host(t testing.TB, lines string) {
	t.Helper()
	if !OnGuest() {
		t.Fatal("only the lab's virtual machine may be changed")
	}
	for _, c := range commands(lines) {
		run := exec.CommandContext(t.Context(), c.words[0], c.words[1:]...)
		run.Stdin = strings.NewReader(c.input)
		if text, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", strings.TrimSpace(strings.Join(c.words, " ")+"\n"+c.input), err, text)
		}
	}
}
