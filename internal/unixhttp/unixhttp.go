// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package unixhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

const (
	// ProbeAtMost bounds the kubelet's question, which is to end before the probe's own limit.
	ProbeAtMost = 3 * time.Second
	// AskAtMost bounds other people's: on a node under load a look at all its processes takes
	// longer than a probe may. It ends before plumbline verify gives the node up.
	AskAtMost = 20 * time.Second
	// answerAtMost bounds an answer in bytes.
	answerAtMost = 4 << 20
)

// Serve answers on the socket at path until ctx ends. A file of that name is an
// earlier container's of the same pod, and is replaced.
func Serve(ctx context.Context, path string, handler http.Handler) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("serve the agent's socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("serve the agent's socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("serve the agent's socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(fmt.Errorf("serve the agent's socket: %w", err), listener.Close())
	}
	server := &http.Server{Handler: handler, ReadTimeout: ProbeAtMost, WriteTimeout: AskAtMost + ProbeAtMost, MaxHeaderBytes: 4096}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "the agent's socket is closed", "path", path)
		}
	}()
	return nil
}

// Ask returns what the agent answers to GET of a URL path, within ProbeAtMost or AskAtMost.
// An answer other than 200 is an error with the answer's text.
func Ask(ctx context.Context, socket, path string, atMost time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return "", fmt.Errorf("ask the agent: %w", err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", fmt.Errorf("ask the agent: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerAtMost))
	if err != nil {
		return "", fmt.Errorf("ask the agent: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return "", errors.New(strings.TrimSpace(string(text)))
	}
	return string(text), nil
}
