// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// guestVariable is set to 1 on the lab's virtual machine, whose kernel has
// every kind of link that a test may ask for.
const guestVariable = "PLUMBLINE_GUEST"

// linkArguments are the arguments of "ip link add" for a kind; below is a link that
// exists.
var linkArguments = map[string]string{
	"vlan":    "link below name probe type vlan id 7",
	"ipvlan":  "link below name probe type ipvlan mode l2",
	"macvlan": "link below name probe type macvlan mode bridge",
	"macvtap": "link below name probe type macvtap mode bridge",
	"vrf":     "name probe type vrf table 77",
	"vxlan":   "name probe type vxlan id 7 dstport 4789",
}

// NeedLink skips the test where the kernel has no links of a kind, such as vrf
// or dummy, and fails it on the lab's virtual machine, which must have them.
func NeedLink(t testing.TB, kind string) {
	t.Helper()
	arguments, ok := linkArguments[kind]
	if !ok {
		arguments = "name probe type " + kind
	}
	ns := NewNamespace(t)
	defer ns.Close()
	ns.Run(t, "ip link add below type veth peer name other")
	var out []byte
	var err error
	ns.Do(t, func() error {
		out, err = exec.CommandContext(t.Context(), "ip", strings.Fields("link add "+arguments)...).CombinedOutput()
		return nil
	})
	switch {
	case err == nil:
	case OnGuest():
		t.Fatalf("the virtual machine's kernel has no links of kind %s: %s", kind, out)
	default:
		t.Skipf("this kernel (%s) has no links of kind %s: %s; the virtual machine's has", release(), kind, strings.TrimSpace(string(out)))
	}
}

// OnGuest tells whether the test runs on the lab's virtual machine, which has
// what a test may need: a test that lacks something there fails.
func OnGuest() bool { return os.Getenv(guestVariable) == "1" }

func release() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err.Error()
	}
	return unix.ByteSliceToString(name.Release[:])
}

// Veth makes a veth pair, both ends down: one in namespace a, one in b, which
// may be the same.
func Veth(t testing.TB, a *Namespace, nameA string, b *Namespace, nameB string) {
	t.Helper()
	a.Run(t, fmt.Sprintf("ip link add %s type veth peer name %s netns /proc/%d/fd/%d", nameA, nameB, os.Getpid(), b.Fd()))
}
