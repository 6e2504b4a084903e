// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

var (
	//go:embed state.sh
	stateScript string
	//go:embed sample.sh
	sampleScript string
)

// Node is where the pods run.
type Node struct {
	Name string
	// Shell is its root shell.
	Shell harness.Shell
	// Cgroup is the folder in which the kubelet keeps its pods' cgroups.
	Cgroup string
	// StandIns is a shell pattern of the NICs' names where they are no PCI
	// functions; empty where they are.
	StandIns string
	// Lanes is how many pods there are at a time: one NIC each.
	Lanes int
}

// run runs a script, which may use harness.FindProcess.
func (n Node) run(ctx context.Context, script string, args ...string) (string, error) {
	// No interface is called /, but an empty pattern would match one without a name.
	pattern := n.StandIns
	if pattern == "" {
		pattern = "/"
	}
	prelude := fmt.Sprintf("CGROUP='%s'\nNICS='%s'\nNICNAME='%s'\n", n.Cgroup, n.StandIns, pattern)
	return n.Shell(ctx, prelude+harness.FindProcess+script, args...)
}

// State is what must be the same before and after, a line each.
type State struct {
	Lines []string
	// Agent is the agent's process, 0 where none runs; Namespaces how many
	// network namespaces it holds.
	Agent, Namespaces int
	// Unused counts the network namespaces that a killed containerd made and knows
	// nothing of.
	Unused int
}

func (n Node) state(ctx context.Context) (State, error) {
	out, err := n.run(ctx, stateScript)
	if err != nil {
		return State{}, fmt.Errorf("read the node's state: %w", err)
	}
	return parseState(out)
}

func parseState(out string) (State, error) {
	var s State
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if _, err := fmt.Sscanf(line, "agent %d %d", &s.Agent, &s.Namespaces); err == nil {
			continue
		}
		word, _, _ := strings.Cut(line, " ")
		if word == "unused" {
			s.Unused++
			continue
		}
		if !slices.Contains([]string{"nic", "namespace", "file"}, word) {
			return s, fmt.Errorf("read the node's state: line %q begins with an unknown word", line)
		}
		s.Lines = append(s.Lines, line)
	}
	slices.Sort(s.Lines)
	return s, nil
}

// Sample is what runs in the pods at one time.
type Sample struct {
	// Up says that the agent serves and is connected to the runtime.
	Up        bool
	Processes []Process
}

// Process is the first process of a container or of a sandbox.
type Process struct {
	// Pod is its pod's UID.
	Pod string
	// Sandbox says that it is the sandbox's, not a container's.
	Sandbox bool
	PID     int
	// NICs are those in its network namespace: PCI addresses, or names where
	// NICs are no PCI functions.
	NICs []string
}

func (n Node) sample(ctx context.Context, pods []string) (Sample, error) {
	out, err := n.run(ctx, sampleScript, pods...)
	if err != nil {
		return Sample{}, fmt.Errorf("sample the pods on the node: %w", err)
	}
	return parseSample(out)
}

func parseSample(out string) (Sample, error) {
	var s Sample
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		var err error
		switch {
		case len(fields) == 1 && fields[0] == "up":
			s.Up = true
		case len(fields) == 5 && fields[0] == "process":
			p := Process{Pod: fields[1], Sandbox: fields[2] == "sandbox"}
			p.PID, err = strconv.Atoi(fields[3])
			for _, link := range strings.Split(fields[4], ",")[1:] {
				p.NICs = append(p.NICs, path.Base(link))
			}
			s.Processes = append(s.Processes, p)
		default:
			err = fmt.Errorf("unknown word or number of fields")
		}
		if err != nil {
			return s, fmt.Errorf("read sample line %q: %w", lines.Text(), err)
		}
	}
	return s, nil
}
