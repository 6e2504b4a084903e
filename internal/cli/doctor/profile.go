// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"fmt"
	"io"
	"os"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/internal/doctor"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
)

// wanted reads the file of --expect; nil where none is given.
func (o *options) wanted() (*hosts.HostProfile, error) {
	if o.expect == "" {
		return nil, nil
	}
	f, err := os.Open(o.expect)
	if err != nil {
		return nil, fmt.Errorf("--expect: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	p, err := doctor.DecodeProfile(f)
	if err != nil {
		return nil, fmt.Errorf("--expect %s: %w", o.expect, err)
	}
	return &p, nil
}

// write writes the file of --learn. What is wrong on the host is learned as well, which
// whoever learns must know.
func (o *options) write(node string, p hosts.HostProfile, wrong int, out io.Writer) error {
	text, err := doctor.EncodeProfile(node, p)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(o.learn, 0o644, bytes.NewReader(text)); err != nil {
		return fmt.Errorf("--learn: %w", err)
	}
	note := ""
	if wrong > 0 {
		note = fmt.Sprintf("; %s wrong there, see plumbline doctor: learn from a good host", plural.Count(wrong, "finding is", "findings are"))
	}
	_, err = fmt.Fprintf(out, "%s: the profile of %s, with %s of devices%s\n", o.learn, printable.Text(node), plural.Count(len(p.Devices), "kind", "kinds"), note)
	return err
}
