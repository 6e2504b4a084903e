// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package sysctl_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/sysctl"
)

// A sysctl of a namespace is set there and nowhere else.
func TestWriteNamespace(t *testing.T) {
	pod, other := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	const file = "/proc/sys/net/ipv4/tcp_rmem"
	beside := other.Run(t, "cat "+file)
	if err := sysctl.New(root, pod.Fd()).WriteNamespace("net.ipv4.tcp_rmem", "4096 131073 6291457"); err != nil {
		t.Fatal(err)
	}
	if got := pod.Run(t, "cat "+file); strings.Join(strings.Fields(got), " ") != "4096 131073 6291457" {
		t.Errorf("the pod has %q", got)
	}
	if got := other.Run(t, "cat "+file); got != beside {
		t.Errorf("another namespace has %q, and had %q", got, beside)
	}
}

func TestWriteNamespaceRefuses(t *testing.T) {
	pod := hosttest.NewNamespace(t)
	net := sysctl.New(root, pod.Fd())
	before, err := os.ReadFile("/proc/sys/net/core/rmem_max")
	if err != nil {
		t.Fatal(err)
	}
	// Newer kernels show it to a namespace, none lets it be written there.
	err = net.WriteNamespace("net.core.rmem_max", "212993")
	if !errors.Is(err, sysctl.ErrReadOnly) && !errors.Is(err, sysctl.ErrLacks) {
		t.Errorf("a sysctl of the whole node: %v", err)
	}
	if after, err := os.ReadFile("/proc/sys/net/core/rmem_max"); err != nil || string(after) != string(before) {
		t.Errorf("net.core.rmem_max is %q, %v, and was %q", after, err, before)
	}
	for _, c := range []struct{ name, value, want string }{
		{"net.ipv4.tcp_no_such", "1", sysctl.ErrLacks.Error()},
		{"net.ipv4.tcp_sack", "many", "invalid argument"},
		{"net.ipv4.tcp_sack", "1 0", `the kernel made "1" of it`},
		{"net.ipv4.tcp_congestion_control", "no_such", "the node has not loaded it: want one of "},
		{"kernel.core_pattern", "x", "that is no name of a sysctl below net"},
		{"net/../kernel/core_pattern", "x", "that is no name of a sysctl below net"},
		{"net...kernel.core_pattern", "x", "that is no name of a sysctl below net"},
	} {
		if err := net.WriteNamespace(c.name, c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %s: %v, want %s", c.name, c.value, err, c.want)
		}
	}
}
