// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// Contain is the node's outer process, on the host: it makes the control groups
// and the namespaces, forwards connections between the two networks, and ends
// with ctx, and with it everything in the node.
func Contain(ctx context.Context, dir string) error {
	plan, err := readPlan(dir)
	if err != nil {
		return err
	}
	groups, err := makeGroups(plan.Group)
	if err = errors.Join(err, groups.write(dir)); err != nil {
		return errors.Join(err, groups.leave(), groups.remove())
	}
	defer func() { _ = errors.Join(groups.leave(), groups.remove()) }()
	// The signal that ends the inside with this process belongs to the thread
	// (PR_SET_PDEATHSIG, prctl(2)).
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", Command, "--inside", dir)
	cmd.Env, cmd.Stdout, cmd.Stderr = os.Environ(), os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: namespaces,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the node's first process: %w", err)
	}
	pid := cmd.Process.Pid
	if err := os.WriteFile(filepath.Join(dir, insideFile), []byte(strconv.Itoa(pid)), 0o644); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	go func() {
		if err := forwardPorts(ctx, pid, plan); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("the node's first process ended: %w", err)
	case <-ctx.Done():
		// The first process of a process namespace takes all others along
		// (pid_namespaces(7)).
		err := cmd.Process.Kill()
		<-ended
		return err
	}
}
