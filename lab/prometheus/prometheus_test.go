// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plumbline.dev/plumbline/lab/daemon"
)

// TestMain lets the test's own program stand in for Prometheus: what that does with its
// files is tried in package install.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "--config.file=") {
		if err := standIn(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// standIn begins to serve some time after it listens, if it finds its configuration.
func standIn(args []string) error {
	flags := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		flags[name] = value
	}
	if text, err := os.ReadFile(flags["--config.file"]); err != nil || string(text) != "good" {
		return fmt.Errorf("configuration %q, %w", text, err)
	}
	if err := os.Mkdir(flags["--storage.tsdb.path"], 0o700); err != nil {
		return err
	}
	from := time.Now().Add(200 * time.Millisecond)
	server := &http.Server{Addr: flags["--web.listen-address"], ReadHeaderTimeout: time.Minute}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/-/ready" || time.Now().Before(from) {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	})
	return server.ListenAndServe()
}

func config(t *testing.T, configuration string) Config {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	t.Cleanup(func() {
		if err := Down(context.WithoutCancel(t.Context()), dir); err != nil {
			t.Error(err)
		}
	})
	return Config{
		Program: program, Dir: dir, Address: l.Addr().String(), Dial: new(net.Dialer).DialContext,
		Files: map[string][]byte{ConfigurationFile: []byte(configuration), "some.token": []byte("secret")},
	}
}

func running(t *testing.T, c Config) daemon.ID {
	t.Helper()
	id, err := daemon.Read(pidFile(c.Dir))
	if err != nil {
		t.Fatal(err)
	}
	if alive, err := id.Alive(); err != nil || !alive {
		t.Fatalf("it does not run: %v", err)
	}
	return id
}

func mustBeGone(t *testing.T, c Config) {
	t.Helper()
	if _, err := os.Stat(folder(c.Dir)); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
}

// A start that was killed leaves a folder, a run that was killed a Prometheus: the next
// start has neither of them.
func TestUpAndDown(t *testing.T) {
	c := config(t, "good")
	c.Enter = []string{"/usr/bin/env"} // brings it to where it is
	if err := os.MkdirAll(filepath.Join(folder(c.Dir), "series"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Up(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	first := running(t, c)
	info, err := os.Stat(filepath.Join(folder(c.Dir), "some.token"))
	if err != nil || info.Mode() != fs.FileMode(0o600) {
		t.Errorf("a token's file: %v, %v, want one that only its owner reads", info, err)
	}
	if err := Up(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	second := running(t, c)
	if alive, err := first.Alive(); err != nil || alive || first == second {
		t.Errorf("the first runs beside the second: %v", err)
	}
	if err := Down(t.Context(), c.Dir); err != nil {
		t.Fatal(err)
	}
	if alive, err := second.Alive(); err != nil || alive {
		t.Errorf("it runs after Down: %v", err)
	}
	mustBeGone(t, c)
	if err := Down(t.Context(), c.Dir); err != nil {
		t.Errorf("Down of none: %v", err)
	}
}

func TestUpOfWhatEnds(t *testing.T) {
	c := config(t, "bad")
	err := Up(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "it ended before it served (plumblab logs prometheus)") {
		t.Errorf("error %v, want one that says that it ended, and where to look", err)
	}
	mustBeGone(t, c)
	if log, err := os.ReadFile(filepath.Join(c.Dir, "logs", "prometheus.log")); err != nil || !strings.Contains(string(log), `configuration "bad"`) {
		t.Errorf("the log says %q, %v", log, err)
	}
}

func TestUpIsGivenUp(t *testing.T) {
	c := config(t, "good")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := Up(ctx, c); err == nil {
		t.Error("no error, and it does not serve")
	}
	mustBeGone(t, c)
}
