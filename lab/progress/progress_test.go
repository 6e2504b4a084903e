// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"strings"
	"testing"
	"time"
)

// clock is a time that tests set.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func TestLines(t *testing.T) {
	var out strings.Builder
	c := &clock{at: time.Unix(0, 0)}
	p := New(&out, false, c.now)
	p.Cached("QEMU")
	task := p.Start("Kubernetes")
	c.at = c.at.Add(31 * time.Second)
	p.show()
	p.show()
	c.at = c.at.Add(221 * time.Second)
	task.Done("built")
	p.Start("runc").Fail()
	p.Note("%d CPUs", 16)
	want := "" +
		"  ✓ QEMU                                       cached\n" +
		"  · Kubernetes                                 31s so far\n" +
		"  ✓ Kubernetes                                 built in 4m12s\n" +
		"  ✗ runc                                       failed after 0.0s\n" +
		"  16 CPUs\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestTerminalRedrawsOneLine(t *testing.T) {
	var out strings.Builder
	c := &clock{at: time.Unix(0, 0)}
	p := New(&out, true, c.now)
	a, b := p.Start("a"), p.Start("b")
	c.at = c.at.Add(12 * time.Second)
	p.show()
	a.Done("built")
	b.Done("built")
	want := "  · a 12s, b 12s\r\x1b[K" +
		"  ✓ a                                          built in 12s\n" +
		"  ✓ b                                          built in 12s\n"
	if out.String() != want {
		t.Errorf("got %q\nwant %q", out.String(), want)
	}
}

func TestElapsed(t *testing.T) {
	for d, want := range map[time.Duration]string{
		40 * time.Millisecond:   "0.0s",
		9900 * time.Millisecond: "9.9s",
		59 * time.Second:        "59s",
		252 * time.Second:       "4m12s",
	} {
		if got := Elapsed(d); got != want {
			t.Errorf("Elapsed(%d) = %s, want %s", d, got, want)
		}
	}
}
