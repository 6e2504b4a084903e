// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"plumbline.dev/plumbline/lab/daemon"
)

// errEnded says that a component ended before it served.
var errEnded = errors.New("ended before it was ready")

// waitReady returns once url answers 200, or with the reason it does not:
// the process ended, or limit is over.
func waitReady(ctx context.Context, id daemon.ID, url string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	transport := &http.Transport{
		// Some components sign for themselves; nothing secret is asked.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	defer transport.CloseIdleConnections()
	httpClient := &http.Client{Transport: transport}
	var last error
	for {
		if last = probe(ctx, httpClient, url); last == nil {
			return nil
		}
		if alive, err := id.Alive(); err != nil || !alive {
			return errors.Join(errEnded, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func probe(ctx context.Context, c *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
	}
	return nil
}

// logTail returns the last n lines of the log at path, for an error's text.
func logTail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
