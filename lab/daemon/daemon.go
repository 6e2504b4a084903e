// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Spec says how to start a process that outlives plumblab.
type Spec struct {
	// Path is the program, absolute.
	Path string
	// Args are its arguments without the program's own name.
	Args []string
	// Dir is its working folder.
	Dir string
	// Env is its whole environment.
	Env []string
	// Log receives what it writes; an older log of the same name is kept
	// with ".1" behind it.
	Log string
	// PIDFile receives its identity.
	PIDFile string
}

// Start runs the process in a session of its own, so that an interrupt typed
// at plumblab does not reach it, and records it in the pid file.
func Start(s Spec) (ID, error) {
	if err := os.Rename(s.Log, s.Log+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return ID{}, fmt.Errorf("start %s: keep old log: %w", s.Path, err)
	}
	log, err := os.Create(s.Log)
	if err != nil {
		return ID{}, fmt.Errorf("start %s: %w", s.Path, err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(s.Path, s.Args...)
	cmd.Dir, cmd.Env = s.Dir, s.Env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return ID{}, fmt.Errorf("start %s: %w", s.Path, err)
	}
	id, err := Of(cmd.Process.Pid)
	if err == nil {
		err = id.Write(s.PIDFile)
	}
	if err != nil {
		return ID{}, errors.Join(fmt.Errorf("start %s: %w", s.Path, err), cmd.Process.Kill(), cmd.Wait())
	}
	// Reap it should it end while plumblab still runs. Alive notices its end; how it
	// ended only its parent learns.
	go func() {
		_ = cmd.Wait() // ProcessState has more than the error
		logEnd(s.Log, cmd.ProcessState)
	}()
	return id, nil
}

// logEnd adds to a process's log how it ended, such as "exit status 0" or
// "signal: segmentation fault": a crash by a signal prints nothing itself.
func logEnd(log string, state *os.ProcessState) {
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return // the folder is gone: there is nobody to read this
	}
	_, _ = fmt.Fprintf(f, "process %d ended: %s\n", state.Pid(), state)
	_ = f.Close()
}

// Stop asks the process to end, kills it after grace, and returns once it is
// gone. A process that is gone already is no error.
func Stop(ctx context.Context, id ID, grace time.Duration) error {
	// The descriptor behind os.Process is opened before identity is
	// checked (pidfd_open(2)), so that no newcomer can slip in between.
	process, err := os.FindProcess(id.PID)
	if err != nil {
		return fmt.Errorf("find process %d: %w", id.PID, err)
	}
	defer func() { _ = process.Release() }()
	if alive, err := id.Alive(); err != nil || !alive {
		return err
	}
	if err := signal(process, syscall.SIGTERM); err != nil {
		return err
	}
	ended, err := wait(ctx, id, grace)
	if err != nil || ended {
		return err
	}
	if err := signal(process, syscall.SIGKILL); err != nil {
		return err
	}
	if ended, err = wait(ctx, id, 10*time.Second); err == nil && !ended {
		err = fmt.Errorf("process %d survives a kill", id.PID)
	}
	return err
}

// End stops the process that is recorded in a pid file as Stop does, and removes the
// file. Where there is none, nothing runs.
func End(ctx context.Context, pidFile string, grace time.Duration) error {
	id, err := Read(pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := Stop(ctx, id, grace); err != nil {
		return err
	}
	return os.Remove(pidFile)
}

func signal(p *os.Process, sig syscall.Signal) error {
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.Pid, err)
	}
	return nil
}

// wait returns true once the process is gone and false after limit.
func wait(ctx context.Context, id ID, limit time.Duration) (bool, error) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		if alive, err := id.Alive(); err != nil || !alive {
			return err == nil, err
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("wait for process %d to end: %w", id.PID, ctx.Err())
		case <-deadline.C:
			return false, nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}
