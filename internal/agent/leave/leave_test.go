// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package leave

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/agent/registration"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/journal"
)

const uid = "6a0c2f2e-53b5-4f4f-a2a4-0d7d3f7c9b11"

var record = driver.Record{
	Version: driver.RecordVersion, Driver: "dra.net", BootID: "boot", Claim: driver.ClaimRef{Namespace: "team-a", Name: "nic", UID: uid},
	Devices: []driver.DeviceRecord{{Request: "nic", Pool: "node", Device: "nic0"}},
}

// host is a host as an agent leaves it that was killed.
func host(t *testing.T) Options {
	t.Helper()
	root := t.TempDir()
	o := Options{
		Drivers:  []string{"dra.net", "dra.cpu"},
		StateDir: filepath.Join(root, "state"), CDIDir: filepath.Join(root, "cdi"), KubeletRoot: filepath.Join(root, "kubelet"),
	}
	for _, name := range []string{
		"state/bin/plumbline-guard", "state/node.json", "state/pods.json", "state/agents/dra.net-killed-reg.sock",
		"cdi/vendor.yaml", "kubelet/plugins/other/socket",
	} {
		write(t, filepath.Join(root, name), "of whoever")
	}
	for _, dir := range []string{"kubelet/plugins_registry", "kubelet/plugins/dra.net", "kubelet/plugins/dra.cpu"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := journal.Open(o.journalDir()); err != nil {
		t.Fatal(err)
	}
	specs, err := cdi.Open(o.CDIDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := specs.Write(record); err != nil {
		t.Fatal(err)
	}
	// A server of dra.cpu that is none of ours calls its specs alike.
	write(t, filepath.Join(root, "cdi/dra.k8s.io-cpu_theirs.json"), `{"cdiVersion":"0.6.0"}`)
	return o
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// listen makes a socket, which is dead afterwards unless it stays open, and as old as
// one of a server that listened long ago.
func listen(t *testing.T, path string, stays bool) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if stays {
		t.Cleanup(func() { _ = l.Close() })
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
}

// files are the paths of all that is no directory, and of empty directories.
func files(t *testing.T, o Options) []string {
	t.Helper()
	root := filepath.Dir(o.StateDir)
	var list []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			entries, err := os.ReadDir(path)
			if err != nil || len(entries) > 0 {
				return err
			}
		}
		name, err := filepath.Rel(root, path)
		list = append(list, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestNothingIsLeft(t *testing.T) {
	o := host(t)
	registry, plugins := filepath.Join(o.KubeletRoot, "plugins_registry"), filepath.Join(o.KubeletRoot, "plugins")
	listen(t, filepath.Join(registry, "dra.net-killed-reg.sock"), false)
	listen(t, filepath.Join(plugins, "dra.net", "dra-killed.sock"), false)
	// Another server of dra.cpu has come, and a third driver is none of ours.
	listen(t, filepath.Join(plugins, "dra.cpu", "dra.sock"), true)
	listen(t, filepath.Join(registry, "gpu.example.com-reg.sock"), false)
	var said bytes.Buffer
	for range 2 {
		if err := Run(t.Context(), o, &said); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"cdi/dra.k8s.io-cpu_theirs.json", "cdi/vendor.yaml", "kubelet/plugins/dra.cpu/dra.sock",
		"kubelet/plugins/other/socket", "kubelet/plugins_registry/gpu.example.com-reg.sock", "state",
	}
	if diff := cmp.Diff(want, files(t, o)); diff != "" {
		t.Errorf("left on the host (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(said.String(), o.StateDir+" is empty (5 entries removed), 1 CDI specs removed\n") {
		t.Errorf("says %q", said.String())
	}
}

func TestNeverInstalled(t *testing.T) {
	root := t.TempDir()
	o := Options{
		Drivers: []string{"dra.net"}, StateDir: filepath.Join(root, "state"), CDIDir: filepath.Join(root, "cdi"), KubeletRoot: filepath.Join(root, "kubelet"),
	}
	if err := Run(t.Context(), o, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
		t.Errorf("made %v, %v", entries, err)
	}
}

// What a pod holds is undone by its record: nothing may go while there is one.
func TestRefusesWhatIsHeld(t *testing.T) {
	for name, hold := range map[string]func(*testing.T, Options){
		"dra.net for team-a/nic": func(t *testing.T, o Options) {
			t.Helper()
			records, err := journal.Open(o.journalDir())
			if err != nil {
				t.Fatal(err)
			}
			if err := records.Put(record); err != nil {
				t.Fatal(err)
			}
		},
		uid + ".json (cannot be read)": func(t *testing.T, o Options) {
			t.Helper()
			write(t, filepath.Join(o.journalDir(), "dra.net", uid+".json"), "half a rec")
		},
	} {
		o := host(t)
		hold(t, o)
		// Dead sockets and marks say nothing of claims, and locks are of the journal's reader.
		kept := func() []string {
			return slices.DeleteFunc(files(t, o), func(name string) bool {
				return strings.HasPrefix(name, "kubelet/plugins") || strings.HasPrefix(name, "state/agents") || strings.HasSuffix(name, ".lock")
			})
		}
		before := kept()
		err := Run(t.Context(), o, &bytes.Buffer{})
		if !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(before, kept()); diff != "" {
			t.Errorf("%s: removed or made (-before +after):\n%s", name, diff)
		}
	}
}

// The kubelet ends the agent's pod beside the one that cleans.
func TestWaitsForTheAgent(t *testing.T) {
	o := host(t)
	agent, err := os.OpenFile(filepath.Join(o.agentsDir(), "dra.net-alive-reg.sock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(agent.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	before := files(t, o)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := Run(ctx, o, &bytes.Buffer{})
		if !errors.Is(err, registration.ErrServing) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("beside a living agent: %v", err)
		}
	})
	if diff := cmp.Diff(before, files(t, o)); diff != "" {
		t.Errorf("removed beside a living agent (-before +after):\n%s", diff)
	}
	if err := agent.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), o, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
}
