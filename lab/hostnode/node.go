// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"plumbline.dev/plumbline/lab/daemon"
	"plumbline.dev/plumbline/lab/vm/initramfs"
)

// Config describes a node to start.
type Config struct {
	// Program is plumblab, which starts itself again as the node's first
	// process.
	Program string
	// Dir is the node's folder.
	Dir string
	// Files are its file system, by absolute path.
	Files initramfs.Files
	Plan  Plan
}

// Node is a node in its folder, running or not.
type Node struct{ dir string }

// Open returns the node whose folder is dir. It need not run, nor exist.
func Open(dir string) *Node { return &Node{dir: dir} }

// Log is the file with what a service of the node printed.
func (n *Node) Log(service string) string { return filepath.Join(n.dir, logsDir, service+".log") }

// Running says whether the node's outer process runs.
func (n *Node) Running() (bool, error) {
	id, err := daemon.Read(filepath.Join(n.dir, outerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return id.Alive()
}

// Put puts a program of the host where the node finds it, and returns its path
// there. It is gone with the node's folder.
func (n *Node) Put(program string) (string, error) {
	name := filepath.Base(program)
	at := filepath.Join(n.dir, name)
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return filepath.Join(stateDir, name), place(at, initramfs.File{Source: program, Mode: 0o755})
}

// Listen listens in the node's network namespace, for a server that runs outside.
func (n *Node) Listen(network, address string) (l net.Listener, err error) {
	err = n.inNetwork(func() error {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

// Dial connects to an address in the node's network namespace, for a client that runs
// outside.
func (n *Node) Dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = n.inNetwork(func() error {
		c, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// InNetwork is the beginning of a command line that runs a program of the host in the
// node's network namespace, and in none of the node's others. The program keeps the
// process that it is started in.
func (n *Node) InNetwork() ([]string, error) {
	pid, err := os.ReadFile(filepath.Join(n.dir, insideFile))
	if err != nil {
		return nil, fmt.Errorf("find the node: %w", err)
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return nil, fmt.Errorf("run a program in the node's network: %w", err)
	}
	return []string{nsenter, "-t", strings.TrimSpace(string(pid)), "-n"}, nil
}

// inNetwork runs fn in the node's network namespace.
func (n *Node) inNetwork(fn func() error) error {
	pid, err := os.ReadFile(filepath.Join(n.dir, insideFile))
	if err != nil {
		return fmt.Errorf("find the node: %w", err)
	}
	namespace, err := os.Open(filepath.Join("/proc", strings.TrimSpace(string(pid)), "ns/net"))
	if err != nil {
		return fmt.Errorf("find the node's network: %w", err)
	}
	defer func() { _ = namespace.Close() }()
	return within(namespace, fn)
}

// Links are the names of the links in the node's network namespace, as the kernel
// lists them for its first process (/proc/PID/net/dev): nothing has to be started
// in the node to learn them.
func (n *Node) Links() ([]string, error) {
	pid, err := os.ReadFile(filepath.Join(n.dir, insideFile))
	if err != nil {
		return nil, err
	}
	table, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "net/dev"))
	if err != nil {
		return nil, err
	}
	return linksIn(string(table)), nil
}

// linksIn reads the table, below two lines of headings.
func linksIn(table string) []string {
	var names []string
	for line := range strings.Lines(table) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// Start makes the node's file system, starts it and waits for its services.
func Start(ctx context.Context, c Config) (*Node, error) {
	n := Open(c.Dir)
	if os.Geteuid() != 0 {
		return nil, errors.New("a node on this host makes namespaces and control groups: run plumblab as root")
	}
	if err := n.prepare(c); err != nil {
		return nil, fmt.Errorf("prepare the node: %w", err)
	}
	id, err := daemon.Start(daemon.Spec{
		Path: c.Program, Args: []string{Command, c.Dir}, Dir: c.Dir,
		Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		Log: filepath.Join(c.Dir, outerLog), PIDFile: filepath.Join(c.Dir, outerFile),
	})
	if err != nil {
		return nil, err
	}
	for {
		if _, err := os.Stat(filepath.Join(c.Dir, startedFile)); err == nil {
			return n, nil
		}
		if alive, err := id.Alive(); err != nil || !alive {
			text, _ := os.ReadFile(filepath.Join(c.Dir, outerLog))
			return nil, errors.Join(fmt.Errorf("the node ended: %s", strings.TrimSpace(string(text))), err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (n *Node) prepare(c Config) error {
	for _, name := range []string{startedFile, insideFile, rootDir} {
		if err := os.RemoveAll(filepath.Join(c.Dir, name)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(c.Dir, logsDir), 0o755); err != nil {
		return err
	}
	for name, file := range c.Files {
		if err := place(filepath.Join(c.Dir, rootDir, name), file); err != nil {
			return err
		}
	}
	return c.Plan.write(c.Dir)
}

// place writes one file, and links rather than copies a big one.
func place(path string, f initramfs.File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := f.Mode.Perm()
	if mode == 0 {
		mode = 0o644
	}
	switch {
	case f.Link != "":
		return os.Symlink(f.Link, path)
	case f.Source == "":
		return os.WriteFile(path, f.Content, mode)
	}
	if os.Link(f.Source, path) == nil {
		return nil
	}
	content, err := os.ReadFile(f.Source) // on another file system
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, mode)
}

// stopGrace is how long the node's end may take: its control groups can only be
// removed when the last process has gone.
const stopGrace = 15 * time.Second

// Stop ends the node and everything in it. One that does not run is no error.
func (n *Node) Stop(ctx context.Context) error {
	id, err := daemon.Read(filepath.Join(n.dir, outerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := daemon.Stop(ctx, id, stopGrace); err != nil {
		return fmt.Errorf("stop the node: %w", err)
	}
	left, err := readGroups(n.dir)
	if err := errors.Join(err, left.remove()); err != nil {
		return fmt.Errorf("remove the node's control groups: %w", err)
	}
	var errs []error
	for _, name := range []string{rootDir, planFile, startedFile, insideFile, groupsFile, outerFile} {
		errs = append(errs, os.RemoveAll(filepath.Join(n.dir, name)))
	}
	return errors.Join(errs...)
}

// Run runs one program in the node as root and returns its exit code.
func (n *Node) Run(ctx context.Context, argv []string, in io.Reader, out, errOut io.Writer) (int, error) {
	pid, err := os.ReadFile(filepath.Join(n.dir, insideFile))
	if err != nil {
		return 0, fmt.Errorf("find the node: %w", err)
	}
	if _, err := strconv.Atoi(string(pid)); err != nil {
		return 0, fmt.Errorf("find the node: %w", err)
	}
	// nsenter forks for the process namespace; its first process reaps.
	enter := append([]string{"-t", string(pid), "-m", "-n", "-p", "-u", "-i", "-C"}, argv...)
	cmd := exec.CommandContext(ctx, "nsenter", enter...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TERM=" + os.Getenv("TERM")}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = in, out, errOut, time.Second
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("run %s on the node: %w", argv[0], err)
	}
	return 0, nil
}
