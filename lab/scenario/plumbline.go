// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// answer is what a command printed and how it ended.
type answer struct {
	Out, Complaint string
	Code           int
}

// Ending says how the command ended, in words.
func (a answer) Ending() string {
	if a.Complaint == "" {
		return fmt.Sprintf("exit code %d", a.Code)
	}
	return fmt.Sprintf("exit code %d: %s", a.Code, a.Complaint)
}

// plumbline runs the command of that name as a user of the cluster. That it ends
// with another code than 0 is an answer, and no error.
func (d Demo) plumbline(ctx context.Context, args ...string) (answer, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, d.Plumbline, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.Kubectl.Kubeconfig)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return answer{}, fmt.Errorf("run plumbline %s: %w", strings.Join(args, " "), err)
	}
	return answer{Out: out.String(), Complaint: strings.TrimSpace(complaint.String()), Code: cmd.ProcessState.ExitCode()}, nil
}
