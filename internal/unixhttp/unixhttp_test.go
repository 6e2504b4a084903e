// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package unixhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAsk(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine\n") })
	mux.HandleFunc("/not", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not ready: waits for NRI", http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/never", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	path := filepath.Join(t.TempDir(), "run", "agent.sock")
	if err := Serve(t.Context(), path, mux); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ path, answer, err string }{
		{"/ok", "fine\n", ""},
		{"/not", "", "not ready: waits for NRI"},
		{"/nothing", "", "404 page not found"},
	}
	for _, tc := range tests {
		answer, err := Ask(t.Context(), path, tc.path, AskAtMost)
		if answer != tc.answer || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%s: %q, %v; want %q, %q", tc.path, answer, err, tc.answer, tc.err)
		}
	}
	if answer, err := Ask(t.Context(), path, "/never", time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer in time: %q, %v", answer, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the socket's mode is %o, want 600", mode)
	}
}

// TestServeAgain: a container that was killed leaves its socket behind.
func TestServeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	answer := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	for _, text := range []string{"first", "second"} {
		if err := Serve(t.Context(), path, answer(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := Ask(t.Context(), path, "/", AskAtMost); err != nil || got != text {
			t.Errorf("%q, %v; want %q", got, err, text)
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	ctx, cancel := context.WithCancel(t.Context())
	if err := Serve(ctx, path, http.NotFoundHandler()); err != nil {
		t.Fatal(err)
	}
	cancel()
	for range 1000 {
		if _, err := Ask(t.Context(), path, "/", AskAtMost); err != nil && strings.HasPrefix(err.Error(), "ask the agent: ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the socket still answers after its end")
}
