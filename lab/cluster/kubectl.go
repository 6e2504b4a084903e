// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// KubectlCommand returns the cluster's own kubectl and the administrator's
// kubeconfig to run it with.
func (c *Cluster) KubectlCommand() (argv []string, kubeconfig string, err error) {
	cp, err := c.find()
	if err != nil {
		return nil, "", err
	}
	// What kubectl remembers of the API server goes with the cluster, and
	// not into the person's home.
	memory := "--cache-dir=" + c.TempFolder("kubectl")
	return []string{filepath.Join(c.dir, "hyperkube"), "kubectl", memory}, cp.Kubeconfig(), nil
}

// Kubectl runs the cluster's own kubectl with the caller's terminal.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) error {
	cmd, err := c.kubectl(ctx, args)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// Apply applies manifests as an administrator does.
func (c *Cluster) Apply(ctx context.Context, manifests []byte) error {
	return c.pipe(ctx, manifests, "apply", "--server-side", "--force-conflicts", "-f", "-")
}

// NodeAPIServer is where a pod in the node's network reaches the API server: the
// lab runs no service proxy.
func (c *Cluster) NodeAPIServer() (host, port string, err error) {
	cp, err := c.find()
	if err != nil {
		return "", "", err
	}
	host, port = cp.GuestAddress()
	return host, port, nil
}

// pipe runs kubectl with a text on its standard input and keeps what it says
// for the error.
func (c *Cluster) pipe(ctx context.Context, input []byte, args ...string) error {
	cmd, err := c.kubectl(ctx, args)
	if err != nil {
		return err
	}
	var complaint bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), errors.Join(err, errors.New(strings.TrimSpace(complaint.String()))))
	}
	return nil
}

func (c *Cluster) kubectl(ctx context.Context, args []string) (*exec.Cmd, error) {
	argv, kubeconfig, err := c.KubectlCommand()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	return cmd, nil
}
