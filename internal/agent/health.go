// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// serveHealth answers every connection with "ok", or with the sentence that
// says what the agent waits for. It is a socket of the state directory and not
// a port: the agent lives in the host's network. A later agent takes the name
// over, so the newest one answers.
func serveHealth(ctx context.Context, path string, ready func() error) error {
	temp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".health-%d.sock", os.Getpid()))
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("serve health: %w", err)
	}
	listener, err := net.Listen("unix", temp)
	if err != nil {
		return fmt.Errorf("serve health: %w", err)
	}
	// The file is renamed, and by the time of closing may be a successor's.
	if l, ok := listener.(*net.UnixListener); ok {
		l.SetUnlinkOnClose(false)
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(fmt.Errorf("serve health: %w", err), listener.Close())
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go answerHealth(ctx, listener, ready)
	return nil
}

func answerHealth(ctx context.Context, listener net.Listener, ready func() error) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "health socket closed")
			}
			return
		}
		answer := "ok"
		if err := ready(); err != nil {
			answer = "not ready: " + err.Error()
		}
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(conn, answer) // the asker may have left
		_ = conn.Close()
	}
}

// AskHealth returns "ok", or an error that says what the agent waits for.
func AskHealth(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return "", fmt.Errorf("ask the agent: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetReadDeadline(deadline)
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 4096))
	if err != nil {
		return "", fmt.Errorf("ask the agent: %w", err)
	}
	if string(answer) != "ok" {
		return "", errors.New(string(answer))
	}
	return "ok", nil
}

// progress is how far the start has come, for the health socket.
type progress struct {
	mu      sync.Mutex
	waiting string
	started bool
}

func (p *progress) waitFor(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = what
}

func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = true
}

func (p *progress) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started {
		return nil
	}
	return errors.New("starting; waits for " + p.waiting)
}

// ready says why no claim can be prepared, or nil.
func (a *agent) ready() error {
	if err := a.health.err(); err != nil {
		return err
	}
	if a.needsRuntime() {
		return a.runtime.Ready()
	}
	return nil
}

func (a *agent) needsRuntime() bool {
	for _, p := range a.preparers {
		if p.NeedsRuntime() {
			return true
		}
	}
	return false
}
