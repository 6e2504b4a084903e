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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Answer is what a command printed and how it ended.
type Answer struct {
	Out, Complaint string
	Code           int
}

// Ending says how the command ended, in words.
func (a Answer) Ending() string {
	if a.Complaint == "" {
		return fmt.Sprintf("exit code %d", a.Code)
	}
	return fmt.Sprintf("exit code %d: %s", a.Code, a.Complaint)
}

// Says says whether the text of plumbline verify gives a question this answer, such as
// "as claimed" with True.
func (a Answer) Says(question string, status metav1.ConditionStatus) bool {
	return answered(a.Out, question, string(status))
}

// Plumbline runs the command of that name as a user of the cluster.
type Plumbline struct {
	// Program and Kubeconfig are paths.
	Program, Kubeconfig string
}

// Run returns what the command answered. That it ends with another code than 0 is an
// answer, and no error.
func (p Plumbline) Run(ctx context.Context, args ...string) (Answer, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, p.Program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Answer{}, fmt.Errorf("run plumbline %s: %w", strings.Join(args, " "), err)
	}
	return Answer{Out: out.String(), Complaint: strings.TrimSpace(complaint.String()), Code: cmd.ProcessState.ExitCode()}, nil
}

// verifyUnknown is plumbline verify's exit code where it cannot tell.
const verifyUnknown = 4

// asks is how often plumbline verify is asked of a pod: on emulated processors that others are
// busy with it may not be answered in time, says so, and is asked again as a user would.
const asks = 3

// Verify returns what plumbline verify answers of a pod.
func (p Plumbline) Verify(ctx context.Context, namespace, pod string) (Answer, error) {
	for ask := 1; ; ask++ {
		answer, err := p.Run(ctx, "verify", "pod/"+pod, "-n", namespace)
		if err != nil || answer.Code != verifyUnknown || ask == asks {
			return answer, err
		}
	}
}

// cli runs commands against the demo's cluster.
func (d Demo) cli() Plumbline {
	return Plumbline{Program: d.Plumbline, Kubeconfig: d.Kubectl.Kubeconfig}
}

// plumbline runs one.
func (d Demo) plumbline(ctx context.Context, args ...string) (Answer, error) {
	return d.cli().Run(ctx, args...)
}
