// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package prometheus runs Debian's Prometheus beside a cluster, in the network of its
// node, where it reaches what runs there. It is reached from there only.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"plumbline.dev/plumbline/lab/daemon"
)

// ConfigurationFile is the one of Config.Files that Prometheus is started with.
const ConfigurationFile = "prometheus.yml"

// patience is how long it may take until it answers, grace until it has ended.
const (
	patience = 30 * time.Second
	grace    = 10 * time.Second
)

// Config says what to run beside a cluster.
type Config struct {
	// Program is Prometheus, Enter the beginning of the command line that brings it to
	// where it is to run, nothing for here.
	Program string
	Enter   []string
	// Dir is the cluster's state folder, with logs in it.
	Dir string
	// Address is one of the loopback that it listens on, Dial what reaches that.
	Address string
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	// Files are ConfigurationFile and those that it names, by their names.
	Files map[string][]byte
}

// Everything of it, series and tokens as well, is in a folder of its own, which goes
// with it.
func folder(dir string) string  { return filepath.Join(dir, "prometheus") }
func pidFile(dir string) string { return filepath.Join(folder(dir), "prometheus.pid") }

// Up starts Prometheus without any series, and waits until it answers. One that runs
// from an earlier time is stopped.
func Up(ctx context.Context, c Config) error {
	if err := Down(ctx, c.Dir); err != nil {
		return err
	}
	if err := os.Mkdir(folder(c.Dir), 0o700); err != nil {
		return fmt.Errorf("start Prometheus: %w", err)
	}
	for name, content := range c.Files {
		if err := os.WriteFile(filepath.Join(folder(c.Dir), name), content, 0o600); err != nil {
			return fmt.Errorf("start Prometheus: %w", err)
		}
	}
	argv := append(append([]string{}, c.Enter...), c.Program,
		"--config.file="+filepath.Join(folder(c.Dir), ConfigurationFile),
		"--storage.tsdb.path="+filepath.Join(folder(c.Dir), "series"),
		"--web.listen-address="+c.Address)
	id, err := daemon.Start(daemon.Spec{
		Path: argv[0], Args: argv[1:], Dir: folder(c.Dir), Env: []string{"HOME=" + folder(c.Dir)},
		Log: filepath.Join(c.Dir, "logs", "prometheus.log"), PIDFile: pidFile(c.Dir),
	})
	if err != nil {
		return err
	}
	if err := c.waitReady(ctx, id); err != nil {
		err = fmt.Errorf("start Prometheus: %w (plumblab logs prometheus)", err)
		return errors.Join(err, Down(context.WithoutCancel(ctx), c.Dir))
	}
	return nil
}

// waitReady waits until it answers that it serves.
func (c Config) waitReady(ctx context.Context, id daemon.ID) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DialContext: c.Dial, DisableKeepAlives: true}}
	for {
		err := c.ready(ctx, client)
		if err == nil {
			return nil
		}
		if alive, problem := id.Alive(); problem != nil || !alive {
			return errors.Join(errors.New("it ended before it served"), problem)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c Config) ready(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Address+"/-/ready", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	_ = response.Body.Close() // read, or err says why not
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}

// Down stops the Prometheus of a cluster and removes what it kept, but for its log. It
// is no error when there is none.
func Down(ctx context.Context, dir string) error {
	if err := daemon.End(ctx, pidFile(dir), grace); err != nil {
		return fmt.Errorf("stop Prometheus: %w", err)
	}
	return os.RemoveAll(folder(dir))
}
