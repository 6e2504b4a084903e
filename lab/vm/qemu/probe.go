// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// device is the kernel's door to hardware virtualisation.
const device = "/dev/kvm"

// probeLimit is how long a guest may take to say something: with hardware
// virtualisation it needs a second.
const probeLimit = 15 * time.Second

// Probe is a guest that says Mark on its console and is used to find out
// whether hardware virtualisation works.
type Probe struct {
	QEMU           Program
	Kernel, Initrd string
	Cmdline, Mark  string
	// Dir is an empty folder for the guest's console.
	Dir string
}

// KVM boots the guest with hardware virtualisation and returns nil when it
// spoke, else why that cannot be used here. Opening the device proves little:
// inside another virtual machine guests may hang or abort all the same.
func (p Probe) KVM(ctx context.Context) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", device, err)
	}
	_ = f.Close()
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	console := filepath.Join(p.Dir, "console.log")
	args := append(p.QEMU.Args[:len(p.QEMU.Args):len(p.QEMU.Args)],
		"-machine", machine, "-accel", "kvm", "-cpu", "max", "-smp", "2", "-m", "512M",
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-kernel", p.Kernel, "-initrd", p.Initrd, "-append", p.Cmdline, "-serial", "file:"+console)
	cmd := exec.CommandContext(ctx, p.QEMU.Path, args...)
	cmd.Env = p.QEMU.Env
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	text, readErr := os.ReadFile(console)
	switch {
	case readErr == nil && strings.Contains(string(text), p.Mark):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("boot a guest with KVM: no sign of life within %s", probeLimit)
	case err != nil:
		return fmt.Errorf("boot a guest with KVM: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return errors.New("boot a guest with KVM: it ended without a word")
}
