// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/doctor"
	"plumbline.dev/plumbline/internal/host/dcb"
	"plumbline.dev/plumbline/internal/host/kmsg"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/printable"
)

// Report is what the command prints of one host.
type Report struct {
	Node     string          `json:"node"`
	Findings []hosts.Finding `json:"findings"`
}

// runHost looks at this host.
func (o *options) runHost(ctx context.Context, want *hosts.HostProfile, out io.Writer) error {
	name, host, err := o.examine(ctx)
	if err != nil {
		return err
	}
	report := Report{Node: printable.Text(name), Findings: doctor.Run(host)}
	if o.learn != "" {
		return o.write(name, doctor.Profile(host), doctor.Count(report.Findings)[hosts.Wrong], out)
	}
	if want != nil {
		report.Findings = append(report.Findings, doctor.Expect(*want, doctor.Profile(host))...)
	}
	for i, f := range report.Findings {
		report.Findings[i] = shown(f)
	}
	if o.output != "text" {
		err = cmdutil.Encode(out, o.output, report)
	} else {
		err = writeHost(out, report, o.all)
	}
	if err != nil {
		return err
	}
	return wrongIs(doctor.Count(report.Findings)[hosts.Wrong])
}

// examine scans this host.
func (o *options) examine(ctx context.Context) (name string, host doctor.Host, err error) {
	if name, err = os.Hostname(); err != nil {
		return "", host, err
	}
	if _, err := os.Stat(filepath.Join(o.root, "sys/bus")); err != nil {
		return "", host, fmt.Errorf("--root %s: no host's root directory: %w", o.root, err)
	}
	var askDriver func(string) (dcb.Settings, error)
	sources := inventory.Sources{Sys: os.DirFS(filepath.Join(o.root, "sys"))}
	if o.root == "/" {
		links, err := inventory.OpenNetlink(netns.Current, nil)
		if err != nil {
			return "", host, err
		}
		defer links.Close()
		sources.Links, askDriver = links, dcb.Read
	}
	m, _, err := inventory.Scan(ctx, sources, inventory.Options{Name: name})
	if err != nil {
		return "", host, fmt.Errorf("read the devices of %s: %w", name, err)
	}
	log := func() (io.ReadCloser, error) { return kmsg.Open(filepath.Join(o.root, "dev/kmsg")) }
	return name, doctor.Host{Machine: m, Files: os.DirFS(o.root), Log: log, DCB: askDriver}, nil
}
