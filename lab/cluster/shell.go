// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"plumbline.dev/plumbline/lab/vm/guest"
)

// leave is the key that ends a shell: Ctrl-], as telnet has it. Every other
// key goes to the guest.
const leave = 0x1d

// Shell joins the caller's terminal with a root shell of the node.
func (c *Cluster) Shell(ctx context.Context, in, out *os.File) error {
	if err := c.needNode(); err != nil {
		return err
	}
	if onHost, err := c.onHost(); onHost || err != nil {
		if err == nil {
			_, err = c.runOnHost(ctx, []string{"/bin/sh"}, in, out, out)
		}
		return err
	}
	conn, err := c.machine().DialShell(ctx)
	if err != nil {
		return fmt.Errorf("reach the node's shell: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if term.IsTerminal(int(in.Fd())) {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return fmt.Errorf("prepare the terminal: %w", err)
		}
		defer func() { _ = term.Restore(int(in.Fd()), before) }()
		fmt.Fprint(out, "root shell of the node; Ctrl-] leaves it\r\n")
	}
	// An empty line brings the prompt back that an earlier visitor took.
	if _, err := conn.Write([]byte("\n")); err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- copyUntil(conn, in, leave) }()
	go func() {
		_, err := io.Copy(out, conn)
		ended <- err
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// copyUntil copies from in to out up to the byte end, or to in's end.
func copyUntil(out io.Writer, in io.Reader, end byte) error {
	buffer := make([]byte, 1024)
	for {
		n, readErr := in.Read(buffer)
		for i, b := range buffer[:n] {
			if b == end {
				_, err := out.Write(buffer[:i])
				return err
			}
		}
		if _, err := out.Write(buffer[:n]); err != nil {
			return err
		}
		if errors.Is(readErr, io.EOF) {
			return nil
		}
		if readErr != nil {
			return readErr
		}
	}
}

// Run runs one program on the node as root and returns its exit code.
func (c *Cluster) Run(ctx context.Context, argv []string, out, errOut io.Writer) (int, error) {
	if err := c.needNode(); err != nil {
		return 0, err
	}
	if onHost, err := c.onHost(); onHost || err != nil {
		if err != nil {
			return 0, err
		}
		return c.runOnHost(ctx, argv, nil, out, errOut)
	}
	response, err := c.machine().Exec(ctx, guest.Request{Argv: argv})
	if err != nil {
		return 0, err
	}
	_, outErr := out.Write(response.Stdout)
	_, errErr := errOut.Write(response.Stderr)
	return response.Code, errors.Join(outErr, errErr)
}

func (c *Cluster) needNode() error {
	running, err := c.running()
	if err == nil && !running {
		err = fmt.Errorf("cluster %s has no running node: run plumblab up", c.name)
	}
	return err
}

// NodeShell runs a script by sh as root on the node and returns what it printed.
func (c *Cluster) NodeShell(ctx context.Context, script string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	argv := append([]string{"/bin/sh", "-c", script, "sh"}, args...)
	code, err := c.Run(ctx, argv, &out, &complaint)
	if err != nil {
		return "", err
	}
	if code != 0 {
		return "", fmt.Errorf("script on the node: exit code %d: %s", code, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}
