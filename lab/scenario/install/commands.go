// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// exampleRegistry stands in the pages where a user writes their own.
const exampleRegistry = "registry.example.com"

// commands are those of the first block below a heading of a page, as somebody copies
// them: without the comments behind them.
func commands(page, heading string) ([]string, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, below, found := bytes.Cut(text, []byte("\n"+heading+"\n"))
	if !found {
		return nil, fmt.Errorf("read %s: no heading %q", page, heading)
	}
	var list []string
	lines := bufio.NewScanner(bytes.NewReader(below))
	for lines.Scan() {
		command, indented := strings.CutPrefix(lines.Text(), "    ")
		switch {
		case indented:
			command, _, _ = strings.Cut(command, "  #")
			list = append(list, strings.TrimSpace(command))
		case len(list) > 0 || strings.HasPrefix(lines.Text(), "#"):
			return list, nil
		}
	}
	return list, lines.Err()
}

// typed runs a command of a page as it stands there, but for the registry and the folder
// that are the run's own, and for what it adds to the installation by Helm: the lab's
// values, and figures for Prometheus.
func (r *run) typed(ctx context.Context, command string) (string, error) {
	fmt.Fprintf(r.Out, "$ %s\n", command)
	line := strings.ReplaceAll(command, exampleRegistry, r.registry)
	line = strings.ReplaceAll(line, " out/", " "+r.Folder+"/")
	if strings.HasPrefix(line, "helm install ") {
		line += " --values " + r.Values + " --set metrics.enabled=true"
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = r.Checkout
	cmd.Env = append(os.Environ(), r.Environment...)
	cmd.Env = append(cmd.Env, "OUT="+r.Folder)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		return "", ctx.Err()
	}
	fmt.Fprintf(r.Out, "  %.0fs\n", time.Since(began).Seconds())
	if err != nil {
		return string(out), fmt.Errorf("%s: %w", command, errors.Join(err, errors.New(strings.TrimSpace(string(out)))))
	}
	return string(out), nil
}
