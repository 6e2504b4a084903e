// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/lab/vm/guest"
)

// Init is process 1. It leaves the initramfs, runs the supervisor as its child
// and reaps whatever the guest's programs leave behind, which would fight with
// os/exec in one process. It returns when the supervisor ends, and the guest is
// to be powered off.
func Init(console io.Writer) error {
	if err := leaveInitramfs(); err != nil {
		return err
	}
	if err := mountAll(); err != nil {
		return err
	}
	return Supervised(console, "supervise")
}

// Supervised runs this program once more with args, and reaps what ends until
// that one does. It is for process 1.
func Supervised(console io.Writer, args ...string) error {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = environment, "/", console, console
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start supervisor: %w", err)
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("wait for children: %w", err)
		case pid == cmd.Process.Pid:
			return fmt.Errorf("supervisor ended with code %d", status.ExitStatus())
		}
	}
}

// guestServices runs a guest's services: what each prints goes to the host.
func guestServices(say func(string, ...any)) Runner {
	return Runner{Log: openLog, Groups: "/sys/fs/cgroup/plumblab", Say: say}
}

// PowerOff ends the guest.
func PowerOff() error {
	unix.Sync()
	return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// Supervise makes the guest what its plan says and keeps it so. It returns
// only when it cannot.
func Supervise(console io.Writer) error {
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(console, guest.Mark+"%6.2fs "+format+"\n", append([]any{uptime()}, args...)...)
	}
	say("kernel is up")
	var plan guest.Plan
	for _, step := range []func() error{
		func() error { return readPlan(&plan) },
		openControllers,
		patchEarly,
		func() error { return unix.Sethostname([]byte(plan.Hostname)) },
		func() error { return setNUMANodes(plan.NUMA) },
		func() error { return loadModules(plan.Modules, plan.ModuleOptions) },
		func() error { say("modules are loaded"); return startProcessors() },
		func() error { say("processors are up"); return serveControl(say) },
		func() error { return serveShell(say) },
		func() error { return setManagement(plan.Management) },
		func() error { return setNICs(plan.NICs) },
		func() error { return keepRDMA(plan.NICs, say) },
		func() error { return setSysctls(plan.Sysctls) },
		func() error { say(guest.Up); return guestServices(say).Run(plan.Services) },
	} {
		if err := step(); err != nil {
			say(guest.Failed+"%v", err)
			return err
		}
	}
	say(guest.Started)
	select {}
}

func readPlan(plan *guest.Plan) error {
	data, err := os.ReadFile(guest.PlanPath)
	if err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	if err := json.Unmarshal(data, plan); err != nil {
		return fmt.Errorf("read plan %s: %w", guest.PlanPath, err)
	}
	return nil
}

// uptime is how long the kernel has run, in seconds.
func uptime() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano()).Seconds()
}
