// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostnode_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"plumbline.dev/plumbline/lab/hostnode"
	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/initramfs"
)

// A node has a network of its own with a way to the API server and one from it,
// is alone with its processes, and leaves nothing when it ends: however it ends.
func TestNode(t *testing.T) {
	nodeprogram := build(t, "./testdata/nodeprogram")
	// plumblab's own processes become the node's: static, since nothing of the
	// host's is there to link with.
	plumblab := build(t, "../cmd/plumblab")
	if err := hostnode.Check(t.Context(), plumblab); err != nil {
		t.Skip(err)
	}
	for _, end := range []string{"stopped", "outer process killed"} {
		t.Run(end, func(t *testing.T) {
			const word = "plumb"
			api := serveWord(t, word)
			kubelet := freePort(t)
			config := hostnode.Config{
				Program: plumblab, Dir: t.TempDir(),
				Files: initramfs.Files{"/nodeprogram": {Source: nodeprogram, Mode: 0o755}},
				Plan: hostnode.Plan{
					Name: "cell", Group: "plumblab-test-" + strconv.Itoa(os.Getpid()), StandIns: []string{"nic0", "nic1"},
					APIPort: api, KubeletPort: kubelet,
					Services: []guest.Service{{Name: "nodeprogram", Argv: []string{
						"/nodeprogram", fmt.Sprintf("10.0.2.2:%d", api), fmt.Sprintf("10.0.2.15:%d", kubelet),
					}}},
				},
			}
			before := outside(t)
			node, err := hostnode.Start(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = node.Stop(context.WithoutCancel(t.Context())) }()
			said := ask(t, kubelet)
			if want := word + " on cell, parent "; !strings.HasPrefix(said, want) {
				t.Errorf("the node says %q, want it to begin with %q", said, want)
			}
			for _, link := range []string{"lo", "mgmt0", "nic0", "nic1"} {
				if !slices.Contains(strings.Fields(said), link) {
					t.Errorf("the node says %q, want link %s among them", said, link)
				}
			}
			for how, seen := range map[string]string{"Dial": dialled(t, node, kubelet), "InNetwork": inNetwork(t, node)} {
				if !strings.Contains(seen, "nic0") {
					t.Errorf("%s leads to %q, want the node's network, with nic0", how, seen)
				}
			}
			if end != "stopped" {
				killOuter(t, config.Dir)
			}
			if err := node.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if after := outside(t); !slices.Equal(before, after) {
				t.Errorf("after the node the host has\n%s\nbefore\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
			}
			if left, err := filepath.Glob("/sys/fs/cgroup/*/*/" + config.Plan.Group); err != nil || len(left) > 0 {
				t.Errorf("control groups are left: %q, %v", left, err)
			}
		})
	}
}

// dialled is what somebody inside answers at the node's own address.
func dialled(t *testing.T, node *hostnode.Node, port int) string {
	t.Helper()
	conn, err := node.Dial(t.Context(), "tcp", net.JoinHostPort("10.0.2.15", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	said, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(said)
}

// inNetwork is the table of links that a program of the host sees there.
func inNetwork(t *testing.T, node *hostnode.Node) string {
	t.Helper()
	argv, err := node.InNetwork()
	if err != nil {
		t.Fatal(err)
	}
	argv = append(argv, "cat", "/proc/net/dev")
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// outside is what a node must not change on the host.
func outside(t *testing.T) []string {
	t.Helper()
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	state := []string{name, string(mounts), string(groups)}
	for _, link := range links {
		state = append(state, link.Name)
	}
	return state
}

// build builds a program as make does, so that little is compiled twice.
func build(t *testing.T, source string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(source))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", "grpcnotrace,nri_no_wasm", "-o", program, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

func serveWord(t *testing.T, word string) (port int) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(word))
			_ = conn.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// ask waits until somebody inside answers.
func ask(t *testing.T, port int) string {
	t.Helper()
	for {
		conn, err := net.Dial("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			said, err := io.ReadAll(conn)
			_ = conn.Close()
			if err == nil && len(said) > 0 {
				return string(said)
			}
		}
		select {
		case <-t.Context().Done():
			t.Fatal(errors.Join(t.Context().Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func killOuter(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "host-node.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
