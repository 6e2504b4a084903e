// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/printable"
)

// missing prints those of its arguments that the image does not have.
const missing = `for p in "$@"; do command -v "$p" >/dev/null || echo "$p"; done`

// awaitTool sees that both pods' image has the programs that the plan needs, and notes the
// version of the one that measures.
func (m *measurement) awaitTool(ctx context.Context) error {
	tool := &m.plan.Tool
	if len(tool.Needs) == 0 {
		return nil
	}
	for _, side := range m.plan.Sides() {
		pod := m.pods[side.Role]
		out, err := m.Execute(ctx, pod.Namespace, pod.Name, append([]string{"sh", "-c", missing, "sh"}, tool.Needs...))
		if err != nil {
			return m.notExecuted(fmt.Sprintf("look for %s in pod %s", strings.Join(tool.Needs, ", "), pod.Name), pod.Name, err)
		}
		if lacks := strings.Fields(string(out)); len(lacks) > 0 {
			return fmt.Errorf("%w: pod %s, image %s: no %s", ErrTool, pod.Name, pod.Spec.Containers[0].Image, printable.Text(strings.Join(lacks, ", ")))
		}
	}
	if len(tool.Version) > 0 {
		client := m.pods[m.plan.Client.Role]
		// perftest says its version, and fails. Without one there is no version in the report.
		out, _ := m.Execute(ctx, client.Namespace, client.Name, tool.Version)
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		m.report.Versions.Tool = printable.Text(strings.TrimSpace(tool.Version[0] + " " + strings.TrimPrefix(first, "Version: ")))
	}
	return ctx.Err()
}

// setUp executes what a plan wants to have been done before any run.
func (m *measurement) setUp(ctx context.Context) error {
	said := ""
	for i, step := range m.plan.Tool.Setup {
		pod := m.pods[step.Role]
		out, err := m.Execute(ctx, pod.Namespace, pod.Name, step.Command(said))
		if err != nil {
			return m.notExecuted(fmt.Sprintf("prepare pod %s, step %d", pod.Name, i+1), pod.Name, err)
		}
		said = strings.TrimSpace(string(out))
	}
	return nil
}

// notExecuted is of a command that could not be executed in a pod, or that failed.
func (m *measurement) notExecuted(what, pod string, err error) error {
	if lacksProgram(err.Error()) {
		return fmt.Errorf("%w: pod %s: %w", ErrTool, pod, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// execute has the client's pod run the tool, against the server's where that needs to be told.
// why is of a tool that gave no figure.
func (m *measurement) execute(ctx context.Context, t target) (result plan.Reading, why, err error) {
	client := m.pods[m.plan.Client.Role]
	tool := &m.plan.Tool
	limited, cancel := context.WithTimeout(ctx, tool.Limit+m.Patience)
	defer cancel()
	if why, err := m.serve(ctx, t, cancel); why != nil || err != nil {
		return plan.Reading{}, why, err
	}
	out, failed := m.Execute(limited, client.Namespace, client.Name, tool.Measure(t.ends))
	if ctx.Err() != nil {
		return plan.Reading{}, nil, ctx.Err()
	}
	if failed != nil && lacksProgram(failed.Error()) {
		return plan.Reading{}, nil, fmt.Errorf("%w: pod %s: %w", ErrTool, client.Name, failed)
	}
	if failed != nil && len(bytes.TrimSpace(out)) == 0 {
		return plan.Reading{}, m.serverSaid(failed), nil
	}
	// What it says itself tells more than its exit code.
	if result, why = tool.Read(bytes.NewReader(out)); why == nil && failed != nil {
		why = failed
	}
	return result, m.serverSaid(why), nil
}

// serverSaid adds to what a client failed of how its server did.
func (m *measurement) serverSaid(why error) error {
	if why == nil || m.server == nil {
		return why
	}
	select {
	case <-m.server.ended:
		if m.server.err != nil {
			return fmt.Errorf("%w; the server: %w", why, m.server.err)
		}
	default:
	}
	return why
}

// server is a tool that serves one run in the server's pod.
type server struct {
	ended chan struct{}
	err   error
}

// serve begins the server's side of a run, and waits until it listens. why is of one that
// ended before. Where the client waits for the server instead, giveUp is called when it would
// wait in vain.
func (m *measurement) serve(ctx context.Context, t target, giveUp func()) (why, err error) {
	tool := &m.plan.Tool
	if tool.Serve == nil {
		return nil, nil
	}
	// That of the run before may still wait for a client that failed.
	if m.server != nil {
		select {
		case <-m.server.ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	pod := m.pods[m.plan.Server.Role]
	s := &server{ended: make(chan struct{})}
	m.server = s
	go func() {
		limited, cancel := context.WithTimeout(ctx, tool.Limit+m.Patience)
		defer cancel()
		_, err := m.Execute(limited, pod.Namespace, pod.Name, tool.Serve(t.ends))
		s.err = err
		close(s.ended)
		if err != nil && tool.Port == 0 {
			giveUp()
		}
	}()
	if tool.Port == 0 {
		return nil, nil
	}
	err = m.await(ctx, func(ctx context.Context) (bool, error) {
		select {
		case <-s.ended:
			why = fmt.Errorf("the server in pod %s ended before its client came: %w", pod.Name, s.err)
			if s.err == nil {
				why = fmt.Errorf("the server in pod %s ended before its client came", pod.Name)
			}
			return true, nil
		default:
		}
		out, err := m.Execute(ctx, pod.Namespace, pod.Name, []string{"cat", "/proc/net/tcp"})
		if err != nil {
			return false, m.notExecuted("read /proc/net/tcp of pod "+pod.Name, pod.Name, err)
		}
		return listens(string(out), tool.Port), nil
	})
	if errors.Is(err, errPatience) {
		return fmt.Errorf("the server in pod %s does not listen on port %d after %s", pod.Name, tool.Port, m.Patience), nil
	}
	return why, err
}

// awaitServer waits until nobody executes the last server any more.
func (m *measurement) awaitServer() {
	if m.server != nil {
		<-m.server.ended
	}
}

// listens says whether /proc/net/tcp has a socket that listens on a port:
//
//	0: 00000000:4853 00000000:0000 0A 00000000:00000000 ...
func listens(text string, port int) bool {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 3 && strings.HasSuffix(words[1], fmt.Sprintf(":%04X", port)) && words[3] == "0A" {
			return true
		}
	}
	return false
}
