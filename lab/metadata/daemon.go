// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"plumbline.dev/plumbline/lab/daemon"
)

// Command is plumblab's word for Serve. Its arguments are --machine and
// --listen.
const Command = "metadata-server"

// patience is how long the server may take to listen.
const patience = 30 * time.Second

// Config says what to run beside a cluster.
type Config struct {
	// Program is plumblab.
	Program string
	// Machine is the name or path of a machine file.
	Machine string
	// Dir is the cluster's state folder, with logs and run in it.
	Dir string
}

func (c Config) pidFile() string  { return filepath.Join(c.Dir, "run", "metadata.pid") }
func (c Config) portFile() string { return filepath.Join(c.Dir, "run", "metadata.port") }

// Up starts the server unless it runs, and returns its port on the loopback.
func Up(ctx context.Context, c Config) (int, error) {
	if port, err := running(c); err != nil || port != 0 {
		return port, err
	}
	// The process chooses no port of its own: who starts it must know.
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	id, err := daemon.Start(daemon.Spec{
		Path: c.Program, Args: []string{Command, "--machine=" + c.Machine, "--listen=" + address}, Dir: c.Dir,
		Env: []string{"HOME=" + c.Dir},
		Log: filepath.Join(c.Dir, "logs", "metadata.log"), PIDFile: c.pidFile(),
	})
	if err != nil {
		return 0, err
	}
	if err := waitFor(ctx, id, address); err != nil {
		return 0, fmt.Errorf("start the metadata server: %w", err)
	}
	return port, os.WriteFile(c.portFile(), []byte(strconv.Itoa(port)), 0o644)
}

// running returns the port of the server that runs, or 0.
func running(c Config) (int, error) {
	id, err := daemon.Read(c.pidFile())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if alive, err := id.Alive(); err != nil || !alive {
		return 0, err
	}
	text, err := os.ReadFile(c.portFile())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func waitFor(ctx context.Context, id daemon.ID, address string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		if alive, problem := id.Alive(); problem != nil || !alive {
			return errors.Join(errors.New("it ended before it listened (plumblab logs metadata)"), problem)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Down stops the server of a cluster. It is no error when there is none.
func Down(ctx context.Context, dir string) error {
	c := Config{Dir: dir}
	if err := daemon.End(ctx, c.pidFile(), 5*time.Second); err != nil {
		return err
	}
	if err := os.Remove(c.portFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
