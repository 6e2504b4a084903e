// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"plumbline.dev/plumbline/lab/daemon"
	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/qemu"
)

// VM is a virtual machine in its folder, running or not.
type VM struct{ dir string }

// Open returns the machine whose folder is dir. It need not run, nor exist.
func Open(dir string) *VM { return &VM{dir: dir} }

// Files of a machine's folder.
const (
	consoleFile   = "console.log"
	pidFile       = "qemu.pid"
	qemuLog       = "qemu.log"
	qmpSocket     = "qmp.sock"
	controlSocket = "control.sock"
	shellSocket   = "shell.sock"
)

func logFile(service string) string { return service + ".log" }

// Console is the file with what the guest's kernel and first program printed.
func (v *VM) Console() string { return v.path(consoleFile) }

// Log is the file with what a service of the guest printed.
func (v *VM) Log(service string) string { return v.path(logFile(service)) }

func (v *VM) path(file string) string { return filepath.Join(v.dir, file) }

// Start starts the machine and returns as soon as QEMU runs; see Wait. It also
// returns in words what differs from the real machine. A machine of this
// folder that still runs is an error.
func Start(ctx context.Context, c Config) (v *VM, deviations []string, err error) {
	v = Open(c.Dir)
	if err := v.prepare(); err != nil {
		return nil, nil, fmt.Errorf("start virtual machine %s: %w", c.Name, err)
	}
	layout, err := c.Shape.Scale(c.CPUs, c.MemoryMiB)
	if err != nil {
		return nil, nil, err
	}
	o := qemu.Options{
		Name: "plumblab-" + c.Name, Shape: c.Shape, Layout: layout, KVM: c.KVM,
		Initrd: c.path("initramfs.cpio"), Cmdline: strings.Join(kernelCommandLine, " "),
		// Relative to QEMU's folder: a socket's whole path must fit into 108
		// bytes (unix(7)).
		Console: consoleFile, Control: qmpSocket, Forwards: c.Forwards,
		Sockets: []qemu.Port{{Name: guest.ControlPort, Path: controlSocket}},
		Shell:   shellSocket,
	}
	for _, s := range c.Services {
		o.Logs = append(o.Logs, qemu.Port{Name: guest.LogPrefix + s.Name, Path: logFile(s.Name)})
	}
	if o.Kernel, err = c.bootable(); err != nil {
		return nil, nil, fmt.Errorf("start virtual machine %s: %w", c.Name, err)
	}
	args, deviations, err := qemu.Args(o)
	if err != nil {
		return nil, nil, err
	}
	if err := c.writeInitramfs(o.Initrd); err != nil {
		return nil, nil, fmt.Errorf("start virtual machine %s: %w", c.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	_, err = daemon.Start(daemon.Spec{
		Path: c.QEMU.Path, Args: append(c.QEMU.Args[:len(c.QEMU.Args):len(c.QEMU.Args)], args...), Env: c.QEMU.Env,
		Dir: c.Dir, Log: v.path(qemuLog), PIDFile: v.path(pidFile),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("start virtual machine %s: %w", c.Name, err)
	}
	return v, deviations, nil
}

// prepare makes the machine's folder ready for another run: what an earlier
// guest said must not be taken for this one's.
func (v *VM) prepare() error {
	running, err := v.Running()
	if err != nil {
		return err
	}
	if running {
		return errors.New("it runs already; stop it first")
	}
	if err := os.MkdirAll(v.dir, 0o755); err != nil {
		return err
	}
	if err := os.Rename(v.Console(), v.Console()+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// kernelCommandLine makes the guest's kernel quick to boot under emulation:
// no mitigations for a processor that is none, no zeroing of memory that QEMU
// just mapped, a clock that needs no device, no watchdogs for CPUs that are
// late because the host is busy.
var kernelCommandLine = []string{
	"console=ttyS0", "quiet", "loglevel=4", "panic=-1", "rdinit=/init",
	// The guest starts the others when it is quiet (lab/vm/guest/boot): until
	// then no code of a kernel for one processor, which would be patched then.
	"maxcpus=1", "noreplace-smp",
	"mitigations=off", "init_on_alloc=0", "tsc=reliable", "no_timer_check", "random.trust_cpu=on",
	"nowatchdog", "lpj=8000000", "rcupdate.rcu_cpu_stall_suppress=1", "rcupdate.rcu_expedited=1",
	"pcie_ports=compat", "cgroup_no_v1=all", "apparmor=0", "audit=0", "numa_balancing=disable", "preempt=none",
}

// machineID derives the 128-bit id of /etc/machine-id from the node's name.
func machineID(name string) string {
	sum := sha256.Sum256([]byte("plumblab " + name))
	return hex.EncodeToString(sum[:16])
}

// grace is how long QEMU gets to end by itself before it is killed.
const grace = 5 * time.Second
