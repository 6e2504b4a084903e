// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"net"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// slcan is the line discipline of CAN on a serial line (N_SLCAN,
// include/uapi/linux/tty.h).
const slcan = 17

// SerialCAN makes a CAN interface on a terminal, down, and returns its name. Of
// the interfaces that need no hardware it alone has a private flag that can be
// set: err-rst-on-open, while it is down (drivers/net/can/slcan, Linux 6.0). It
// comes into the machine's own network namespace, so that the test is skipped but
// on the lab's virtual machine.
func SerialCAN(t testing.TB) (name string) {
	t.Helper()
	if !OnGuest() {
		t.Skip("an interface with a private flag comes into the machine's own network namespace: on the lab's virtual machine alone")
	}
	before := interfaceNames(t)
	terminal := openTerminal(t)
	if err := unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSETD, slcan); err != nil {
		t.Fatalf("put the line discipline slcan on %s: %v", terminal.Name(), err)
	}
	for _, name := range interfaceNames(t) { // slcan0, or can0 as of all CAN drivers
		if !slices.Contains(before, name) {
			return name
		}
	}
	t.Fatalf("the line discipline slcan on %s made no interface", terminal.Name())
	return ""
}

func interfaceNames(t testing.TB) []string {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names
}

// openTerminal opens a pseudo terminal until the test ends (ptmx(4)).
func openTerminal(t testing.TB) *os.File {
	t.Helper()
	open := func(path string) *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	master := open("/dev/ptmx")
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("unlock a pseudo terminal: %v", err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatalf("number of a pseudo terminal: %v", err)
	}
	return open(fmt.Sprintf("/dev/pts/%d", number))
}
