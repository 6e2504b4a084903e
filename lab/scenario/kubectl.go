// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Kubectl runs the lab's own kubectl against the lab's own cluster, as a user
// would.
type Kubectl struct {
	// Command is the program with its leading arguments.
	Command []string
	// Kubeconfig is a path.
	Kubeconfig string
}

// Run returns what kubectl printed. Its error carries what it complained about.
func (k Kubectl) Run(ctx context.Context, args ...string) (string, error) {
	return k.RunWithInput(ctx, "", args...)
}

// RunWithInput is Run with a text on standard input, for `apply -f -`.
func (k Kubectl) RunWithInput(ctx context.Context, input string, args ...string) (string, error) {
	all := append(append([]string{}, k.Command[1:]...), args...)
	cmd := exec.CommandContext(ctx, k.Command[0], all...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.Kubeconfig)
	cmd.Stdin = strings.NewReader(input)
	cmd.WaitDelay = 5 * time.Second
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}

// Get reads one object, or a list of them, into a typed value.
func (k Kubectl) Get(ctx context.Context, into any, args ...string) error {
	out, err := k.Run(ctx, append(append([]string{"get"}, args...), "-o", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("decode %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// BrokenStream is how kubectl names a connection that ended before the command's answer.
const BrokenStream = "websocket: close 1006"

// Shell runs a script by sh in a pod's container. Where the connection breaks it is run
// once more: the network that QEMU makes for a guest drops one now and then on a busy host.
func (k Kubectl) Shell(ctx context.Context, namespace, pod, script string, args ...string) (string, error) {
	argv := append([]string{"exec", "-n", namespace, pod, "--", "sh", "-c", script, "sh"}, args...)
	out, err := k.Run(ctx, argv...)
	if err != nil && strings.Contains(err.Error(), BrokenStream) {
		return k.Run(ctx, argv...)
	}
	return out, err
}
