// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Silent is a process in a mount namespace of its own, in which a FUSE file system
// without a server is mounted, and a FIFO without a writer is at /dev/fifo. A system
// call on one of them blocks until the process ends. /dev/plain/deeper/device is a
// device file, 10:229.
type Silent struct {
	PID int
	// Dir is the FUSE file system as seen from outside.
	Dir string
	cmd *exec.Cmd
}

// silence mounts FUSE without a helper, by descriptor 3, which the process keeps
// (Documentation/filesystems/fuse/fuse.rst). Not even the first message, FUSE_INIT, is
// answered, so that every request blocks.
const silence = `set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /dev
mkdir -p /dev/plain/deeper "$0"
mkfifo /dev/fifo
mknod /dev/plain/deeper/device c 10 229
mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 silent "$0"
echo ready
exec sleep 600`

// NewSilent starts one, with the file system at a directory such as /dev/silent, or
// skips the test where the kernel has no FUSE.
func NewSilent(t testing.TB, at string) *Silent {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making mount namespaces needs root")
	}
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("needs FUSE: %v", err)
	}
	defer fuse.Close()
	cmd := exec.Command("sh", "-c", silence, at)
	cmd.ExtraFiles = []*os.File{fuse}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &Silent{PID: cmd.Process.Pid, Dir: fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, at), cmd: cmd}
	t.Cleanup(s.End)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the process says %q: %v", line, err)
	}
	return s
}

// End ends the process; blocked system calls return an error. Ending twice is allowed.
func (s *Silent) End() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}
