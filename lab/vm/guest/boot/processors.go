// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"fmt"
	"os"
	"path/filepath"
)

// startProcessors starts those that the kernel left off (maxcpus=1 on its
// command line). A kernel patches its own code most while it starts: jump
// labels, alternatives, what modules hook into. QEMU 7.2, emulating several
// CPUs at once, can keep a translation of an instruction as it was in the
// middle of that, a breakpoint, and then every CPU that comes by traps for ever
// (arch/x86/kernel/alternative.c, text_poke_bp_batch). One CPU alone is not
// asked to see the middle.
//
// It comes before interfaces go up: a driver spreads its interrupts over the
// CPUs that there are (kernel/irq/manage.c, irq_setup_affinity).
func startProcessors() error {
	files, err := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/online")
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := os.WriteFile(file, []byte("1"), 0); err != nil {
			return fmt.Errorf("start a processor: %w", err)
		}
	}
	return nil
}
