// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Lab is a machine of the lab that is up, with a cluster on it.
type Lab struct {
	// Folder is where the reader's files are written.
	Folder string
	// Programs are those on the reader's PATH, each with the arguments it begins with.
	Programs map[string][]string
	// Environment has the programs find the cluster.
	Environment []string
	// Shell is the node's.
	Shell harness.Shell
	// Image is to run where the examples' overlays have LabImage.
	LabImage, Image string
	// Stop ends the machine.
	Stop func(context.Context) error
}

// terminal is where a reader types.
type terminal struct {
	*Lab
	// dir is the current folder.
	dir string
}

// open puts the programs on the terminal's PATH.
func (t *terminal) open() error {
	bin := t.bin()
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	for name, argv := range t.Programs {
		var words []string
		for _, word := range argv {
			words = append(words, quote(word))
		}
		script := "#!/bin/sh\nexec " + strings.Join(words, " ") + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			return err
		}
	}
	t.dir = t.Folder
	return nil
}

func (t *terminal) bin() string { return filepath.Join(t.Folder, "bin") }

// quote is a word as a shell reads it.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// until types a command, again and again if the step is to wait, and returns the last
// answer. That it is not judged right in time is none of its errors.
func (t *terminal) until(ctx context.Context, step Step, command string) (answer scenario.Answer, err error) {
	if !step.Wait {
		return t.typed(ctx, step, command)
	}
	waited := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		answer, err = t.typed(ctx, step, command)
		return err == nil && step.Judge.differs(step.Prints, answer) == nil, nil
	})
	if waited != nil && !errors.Is(waited, harness.ErrTimeout) {
		return answer, waited
	}
	return answer, err
}

// typed types a command once, with its words filled in.
func (t *terminal) typed(ctx context.Context, step Step, command string) (scenario.Answer, error) {
	command, err := t.filled(ctx, step, command)
	if err != nil {
		return scenario.Answer{}, err
	}
	ctx, end := context.WithTimeout(ctx, limit)
	defer end()
	if step.In == "node" {
		out, err := t.Shell(ctx, command)
		if err != nil {
			return scenario.Answer{Out: out, Complaint: err.Error(), Code: 1}, nil
		}
		return scenario.Answer{Out: out}, nil
	}
	cmd := t.command(ctx, step, command)
	answer, err := finish(cmd, cmd.Run())
	if err == nil && answer.Code != 0 && strings.Contains(answer.Complaint, scenario.BrokenStream) {
		cmd = t.command(ctx, step, command)
		answer, err = finish(cmd, cmd.Run())
	}
	return answer, err
}

// filled is a command with what a reader types in place of words of the page's own run.
func (t *terminal) filled(ctx context.Context, step Step, command string) (string, error) {
	for _, word := range slices.Sorted(maps.Keys(step.Fill)) {
		answer, err := t.typed(ctx, Step{}, step.Fill[word])
		if err != nil {
			return "", err
		}
		value := strings.TrimSpace(answer.Out)
		if answer.Code != 0 || value == "" {
			return "", fmt.Errorf("fill in %s by %s: it prints %q, %s", word, step.Fill[word], value, answer.Ending())
		}
		command = strings.ReplaceAll(command, word, value)
	}
	return command, nil
}

// command is one of the reader's shell, or of a pod's. What it starts ends with it.
func (t *terminal) command(ctx context.Context, step Step, command string) *exec.Cmd {
	if pod, inPod := strings.CutPrefix(step.In, "pod "); inPod {
		command = "kubectl exec " + pod + " -- sh -c " + quote(command)
	}
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-c", command)
	cmd.Dir = t.dir
	cmd.Env = append([]string{
		"PATH=" + t.bin() + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + t.Folder, "LC_ALL=C.UTF-8", "TERM=dumb",
	}, t.Environment...)
	cmd.Stdout, cmd.Stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// finish is the answer of a command that has ended. What it left running, which kept its
// output open, ends too.
func finish(cmd *exec.Cmd, err error) (scenario.Answer, error) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // most leave nothing
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return scenario.Answer{}, err
	}
	out, _ := cmd.Stdout.(*bytes.Buffer)
	complaint, _ := cmd.Stderr.(*bytes.Buffer)
	return scenario.Answer{Out: out.String(), Complaint: strings.TrimSpace(complaint.String()), Code: cmd.ProcessState.ExitCode()}, nil
}

// besides is a command that runs beside the rows after it.
type besides struct {
	row     Row
	step    Step
	command string
	ended   chan scenario.Answer
}

func start(ctx context.Context, t *terminal, row Row) (besides, error) {
	step, command := row.here()
	command, err := t.filled(ctx, step, command)
	if err != nil {
		return besides{}, err
	}
	cmd := t.command(ctx, step, command)
	if err := cmd.Start(); err != nil {
		return besides{}, err
	}
	b := besides{row: row, step: step, command: command, ended: make(chan scenario.Answer, 1)}
	go func() {
		answer, err := finish(cmd, cmd.Wait())
		if err != nil {
			answer = scenario.Answer{Complaint: err.Error(), Code: -1}
		}
		b.ended <- answer
	}()
	return b, nil
}

// answer waits for the command, which has a minute more than the rows after it.
func (b besides) answer(ctx context.Context) scenario.Answer {
	select {
	case answer := <-b.ended:
		return answer
	case <-ctx.Done():
		return scenario.Answer{Complaint: ctx.Err().Error(), Code: -1}
	case <-time.After(time.Minute):
		return scenario.Answer{Complaint: "it runs still", Code: -1}
	}
}
