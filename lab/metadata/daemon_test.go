// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/gce"
	"plumbline.dev/plumbline/internal/machine"
)

// TestMain lets the test's own program stand in for plumblab.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		if err := standIn(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func standIn(args []string) error {
	flags := map[string]string{}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		flags[name] = value
	}
	facts, err := machine.OpenFacts(flags["--machine"])
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", flags["--listen"])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return Serve(ctx, l, facts)
}

func stateDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"run", "logs"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestUpAndDown(t *testing.T) {
	dir := stateDir(t)
	config := Config{Program: os.Args[0], Machine: tpu, Dir: dir}
	port, err := Up(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Down(context.WithoutCancel(t.Context()), dir) })
	if again, err := Up(t.Context(), config); err != nil || again != port {
		t.Errorf("Up again = %d, %v; want %d", again, err, port)
	}
	provider, err := gce.New(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Lookup(t.Context(), []cloud.Device{{}}); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := Down(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := provider.Lookup(t.Context(), []cloud.Device{{}}); err == nil {
		t.Error("it answers after Down")
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "run")); len(left) > 0 {
		t.Errorf("Down left %v", left)
	}
}

func TestUpTellsWhyNot(t *testing.T) {
	_, err := Up(t.Context(), Config{Program: os.Args[0], Machine: "no-such-machine", Dir: stateDir(t)})
	if err == nil || !strings.Contains(err.Error(), "it ended before it listened") {
		t.Errorf("Up = %v", err)
	}
}
