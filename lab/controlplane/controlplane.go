// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs a Kubernetes control plane as processes of the
// person who calls it: etcd, API server, controller-manager and scheduler on
// the host's loopback, each with its own identity. It knows no nodes, builds
// nothing and needs no root.
package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"plumbline.dev/plumbline/lab/daemon"
)

// Config says what to run.
type Config struct {
	// Hyperkube is the program that holds every component.
	Hyperkube string
	// Dir is the cluster's state folder.
	Dir string
	// FeatureGates are set in every part of Kubernetes, such as A=true,B=false; empty:
	// as the release has them.
	FeatureGates string
}

// ControlPlane is a cluster's control plane on disk, running or not.
type ControlPlane struct {
	dir   string
	ports Ports
}

// patience is how long one component may take to serve. A cold disk and two
// cores need a tenth of it.
const patience = 3 * time.Minute

// ErrDown says that no control plane runs from a state folder.
var ErrDown = errors.New("control plane is down")

// Up returns the control plane of c.Dir, starting it where it does not run as
// a whole. One of which a part has died is started afresh, without its data:
// what etcd wrote without fsync cannot be trusted.
func Up(ctx context.Context, c Config) (*ControlPlane, error) {
	running, err := Find(c.Dir)
	if err == nil || !errors.Is(err, ErrDown) {
		return running, err
	}
	if err := Down(ctx, c.Dir); err != nil {
		return nil, err
	}
	return start(ctx, c)
}

func start(ctx context.Context, c Config) (*ControlPlane, error) {
	for _, name := range []string{"logs", "run", "tmp"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, name), 0o755); err != nil {
			return nil, err
		}
	}
	ports, err := choosePorts()
	if err != nil {
		return nil, err
	}
	if err := writeCredentials(c.Dir, ports.API); err != nil {
		return nil, fmt.Errorf("make credentials: %w", err)
	}
	cp := &ControlPlane{dir: c.Dir, ports: ports}
	for _, part := range components(c.Dir, ports) {
		if c.FeatureGates != "" && strings.HasPrefix(part.name, "kube-") {
			part.args = append(part.args, "--feature-gates="+c.FeatureGates)
		}
		if err := cp.startOne(ctx, c.Hyperkube, part); err != nil {
			return nil, err
		}
	}
	// Written last: a state folder without it is a start that failed.
	text, err := json.Marshal(ports)
	if err != nil {
		return nil, err
	}
	return cp, os.WriteFile(filepath.Join(c.Dir, "ports.json"), text, 0o644)
}

func (cp *ControlPlane) startOne(ctx context.Context, program string, part component) error {
	id, err := daemon.Start(daemon.Spec{
		Path: program,
		Args: append([]string{part.name}, part.args...),
		Dir:  cp.dir,
		// Nothing of the caller's environment may change what runs, and
		// nothing may be written to the caller's home.
		Env:     []string{"HOME=" + cp.dir, "TMPDIR=" + filepath.Join(cp.dir, "tmp")},
		Log:     LogPath(cp.dir, part.name),
		PIDFile: pidPath(cp.dir, part.name),
	})
	if err != nil {
		return err
	}
	if err := waitReady(ctx, id, part.ready, patience); err != nil {
		return fmt.Errorf("start %s: %w\nend of %s:\n%s", part.name, err,
			LogPath(cp.dir, part.name), logTail(LogPath(cp.dir, part.name), 5))
	}
	return nil
}

// Find returns the control plane that runs from dir, or ErrDown with the name
// of the part that does not run.
func Find(dir string) (*ControlPlane, error) {
	cp := &ControlPlane{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, "ports.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrDown
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &cp.ports); err != nil {
		return nil, fmt.Errorf("read %s/ports.json: %w", dir, err)
	}
	for _, part := range components(dir, cp.ports) {
		alive, err := runs(dir, part.name)
		if err != nil {
			return nil, err
		}
		if !alive {
			return nil, fmt.Errorf("%w: %s does not run", ErrDown, part.name)
		}
	}
	return cp, nil
}

func runs(dir, name string) (bool, error) {
	id, err := daemon.Read(pidPath(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return id.Alive()
}

// Down stops the control plane of dir, or whatever a failed start left of it,
// and removes its state. Logs stay. A state folder that is not there is no
// error.
func Down(ctx context.Context, dir string) error {
	parts := components(dir, Ports{})
	slices.Reverse(parts)
	for _, part := range parts {
		if err := daemon.End(ctx, pidPath(dir, part.name), part.grace); err != nil {
			return fmt.Errorf("stop %s: %w", part.name, err)
		}
	}
	for _, name := range []string{"ports.json", "etcd", "pki", "tmp"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove state: %w", err)
		}
	}
	return nil
}

// LogPath is where the component called name writes its log.
func LogPath(dir, name string) string { return filepath.Join(dir, "logs", name+".log") }

func pidPath(dir, name string) string { return filepath.Join(dir, "run", name+".pid") }

// Names lists the components in the order they start.
func Names() []string {
	var names []string
	for _, part := range components("", Ports{}) {
		names = append(names, part.name)
	}
	return names
}

// Server is the API server's address on the host.
func (cp *ControlPlane) Server() string { return fmt.Sprintf("https://127.0.0.1:%d", cp.ports.API) }

// Kubeconfig is the administrator's kubeconfig file.
func (cp *ControlPlane) Kubeconfig() string { return kubeconfigPath(cp.dir, "admin") }

// Port is the API server's on the host's loopback.
func (cp *ControlPlane) Port() int { return cp.ports.API }

// GuestAddress is the API server's address as a virtual machine's guest sees
// it.
func (cp *ControlPlane) GuestAddress() (host, port string) {
	return HostInGuest, strconv.Itoa(cp.ports.API)
}
