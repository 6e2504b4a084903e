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

// Helm runs Helm as the administrator, with a text on its standard input, and returns
// what it printed. Its error carries what it complained about.
func (c *Cluster) Helm(ctx context.Context, input []byte, args ...string) (string, error) {
	argv, env, err := c.HelmCommand()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], args...)...)
	cmd.Env = append(os.Environ(), env...)
	var out, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w", strings.Join(args, " "), errors.Join(err, errors.New(strings.TrimSpace(complaint.String()))))
	}
	return out.String(), nil
}

// TempFolder is a folder of that name for what nobody needs when the cluster has gone.
func (c *Cluster) TempFolder(name string) string { return filepath.Join(c.dir, "tmp", name) }

// HelmCommand returns the cluster's own Helm, and what of the environment has it use
// this cluster and write nothing into the person's home.
func (c *Cluster) HelmCommand() (argv, env []string, err error) {
	cp, err := c.find()
	if err != nil {
		return nil, nil, err
	}
	env = []string{"KUBECONFIG=" + cp.Kubeconfig()}
	for _, folder := range []string{"CACHE", "CONFIG", "DATA"} {
		env = append(env, "HELM_"+folder+"_HOME="+c.TempFolder("helm"))
	}
	return []string{filepath.Join(c.dir, "helm")}, env, nil
}
