// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// terminal is the console that QEMU joins with a socket on the host.
const terminal = "/dev/hvc0"

// serveShell keeps a root shell on the terminal.
func serveShell(say func(string, ...any)) error {
	go func() {
		for {
			if err := shell(); err != nil {
				say("shell: %v", err)
			}
			time.Sleep(restart)
		}
	}()
	return nil
}

func shell() error {
	tty, err := os.OpenFile(terminal, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("open terminal: %w", err)
	}
	defer func() { _ = tty.Close() }()
	cmd := exec.Command("/bin/busybox", "sh", "-l")
	cmd.Env = append(environment[:len(environment):len(environment)], "TERM=vt100", "PS1=\\h:\\w# ")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/", tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	// A shell ends with the code of its last command, which is nobody's error.
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	_ = cmd.Wait()
	return nil
}
