// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"plumbline.dev/plumbline/lab/daemon"
	"plumbline.dev/plumbline/lab/vm/guest"
	"plumbline.dev/plumbline/lab/vm/initramfs"
	"plumbline.dev/plumbline/lab/vm/qemu"
)

// KVM finds out whether guests can use hardware virtualisation here, by booting
// one; why says in words why not. The answer is kept in the file known for as
// long as this host stays up. Of c, QEMU, Kernel, ModulesDir, Init and Dir
// count.
func KVM(ctx context.Context, c Config, known string) (works bool, why string, err error) {
	boot, err := daemon.Of(os.Getpid())
	if err != nil {
		return false, "", fmt.Errorf("probe KVM: %w", err)
	}
	if text, err := os.ReadFile(known); err == nil {
		if id, answer, ok := strings.Cut(string(text), "\n"); ok && id == boot.Boot {
			return answer == "", answer, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, "", fmt.Errorf("probe KVM: %w", err)
	}
	answer, err := probeKVM(ctx, c)
	if err != nil {
		return false, "", fmt.Errorf("probe KVM: %w", err)
	}
	if err := os.WriteFile(known, []byte(boot.Boot+"\n"+answer), 0o644); err != nil {
		return false, "", fmt.Errorf("probe KVM: %w", err)
	}
	return answer == "", answer, nil
}

// probeKVM returns why KVM does not work, or nothing.
func probeKVM(ctx context.Context, c Config) (string, error) {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(c.Dir, "probe-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	image, err := c.bootable()
	if err != nil {
		return "", err
	}
	// The first program finds no plan, says so and powers off: that will do.
	initrd := filepath.Join(dir, "initramfs.cpio")
	if err := initramfs.WriteFile(initrd, initramfs.Files{"/init": {Source: c.Init, Mode: 0o755}}, nil); err != nil {
		return "", err
	}
	err = qemu.Probe{
		QEMU: c.QEMU, Kernel: image, Initrd: initrd, Dir: dir,
		Cmdline: strings.Join(kernelCommandLine, " "), Mark: guest.Mark,
	}.KVM(ctx)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return err.Error(), nil
	}
	return "", nil
}
