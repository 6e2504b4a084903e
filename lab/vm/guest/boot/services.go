// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"plumbline.dev/plumbline/lab/vm/guest"
)

// environment is what every program of the guest starts from.
var environment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}

const (
	poll    = 50 * time.Millisecond
	restart = time.Second
)

// Runner runs services, in a guest or in a node on a host.
type Runner struct {
	// Log opens what a service prints into.
	Log func(service string) (*os.File, error)
	// Groups is the folder in which each service gets a control group (version
	// 2) of its own; empty for none.
	Groups string
	// Say prints what goes on.
	Say func(string, ...any)
}

// Run starts the services in order.
func (r Runner) Run(services []guest.Service) error {
	say := r.Say
	for _, s := range services {
		for s.After != "" {
			if _, err := os.Stat(s.After); err == nil {
				break
			}
			time.Sleep(poll)
		}
		out, err := r.Log(s.Name)
		if err != nil {
			return err
		}
		if s.Once {
			r.runOnce(s, out)
			continue
		}
		cmd, err := r.start(s, out)
		if err != nil {
			return err
		}
		say("%s started", s.Name)
		go r.keep(s, cmd, out)
	}
	return nil
}

// runOnce runs a service until it succeeds: what it needs may be almost there.
func (r Runner) runOnce(s guest.Service, out *os.File) {
	defer func() { _ = out.Close() }()
	for {
		cmd, err := r.start(s, out)
		if err == nil {
			err = cmd.Wait()
		}
		if err == nil {
			r.Say("%s done", s.Name)
			return
		}
		r.Say("%s: %v; trying again", s.Name, err)
		time.Sleep(restart)
	}
}

// keep starts a service again whenever it ends.
func (r Runner) keep(s guest.Service, cmd *exec.Cmd, out *os.File) {
	for {
		err := cmd.Wait()
		r.Say("%s ended: %v; starting it again", s.Name, err)
		for {
			time.Sleep(restart)
			if cmd, err = r.start(s, out); err == nil {
				break
			}
			r.Say("%v", err)
		}
	}
}

// start runs a service, in a control group of its own where there is a place
// for one.
func (r Runner) start(s guest.Service, out *os.File) (*exec.Cmd, error) {
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	cmd.Env = append(environment[:len(environment):len(environment)], s.Env...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if r.Groups != "" {
		group := filepath.Join(r.Groups, s.Name)
		if err := os.MkdirAll(group, 0o755); err != nil {
			return nil, fmt.Errorf("start %s: %w", s.Name, err)
		}
		dir, err := os.Open(group)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", s.Name, err)
		}
		defer func() { _ = dir.Close() }()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	return cmd, nil
}

// openLog opens the port whose other end is a file on the host.
func openLog(service string) (*os.File, error) {
	f, err := openPort(guest.LogPrefix + service)
	if errors.Is(err, fs.ErrNotExist) {
		return os.OpenFile("/dev/console", os.O_WRONLY, 0)
	}
	return f, err
}

// openPort finds a virtio-serial port by name.
func openPort(name string) (*os.File, error) {
	files, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("find port %s: %w", name, err)
		}
		if strings.TrimSpace(string(text)) == name {
			return os.OpenFile(filepath.Join("/dev", filepath.Base(filepath.Dir(file))), os.O_RDWR, 0)
		}
	}
	return nil, fmt.Errorf("find port %s: %w", name, fs.ErrNotExist)
}
