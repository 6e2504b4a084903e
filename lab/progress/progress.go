// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package progress prints what the lab is doing, one line per finished step.
// On a terminal a last line shows the steps under way; elsewhere each step is
// announced when it starts to take long. It decides nothing.
package progress

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Printer writes progress lines. It may be used by several goroutines.
type Printer struct {
	w        io.Writer
	terminal bool
	now      func() time.Time

	mu     sync.Mutex
	active []*Task
	stop   chan struct{}
	drawn  bool
}

// New returns a printer on w. terminal says whether w understands carriage
// return and erase; now is the clock.
func New(w io.Writer, terminal bool, now func() time.Time) *Printer {
	return &Printer{w: w, terminal: terminal, now: now}
}

// Task is one step under way.
type Task struct {
	p       *Printer
	title   string
	begun   time.Time
	printed time.Time
}

// Start announces a step. End it with Done or Fail.
func (p *Printer) Start(title string) *Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &Task{p: p, title: title, begun: p.now(), printed: p.now()}
	p.active = append(p.active, t)
	if len(p.active) == 1 {
		p.stop = make(chan struct{})
		go p.tick(p.stop)
	}
	return t
}

// Done ends the step and prints it with the time it took: "built in 4m12s".
func (t *Task) Done(what string) {
	t.p.end(t, "✓", fmt.Sprintf("%s in %s", what, Elapsed(t.p.now().Sub(t.begun))))
}

// Fail ends the step. The error itself is the caller's to print.
func (t *Task) Fail() {
	t.p.end(t, "✗", "failed after "+Elapsed(t.p.now().Sub(t.begun)))
}

// Cached prints a step that had nothing to do.
func (p *Printer) Cached(title string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line("✓", title, "cached")
}

// Note prints an indented line that belongs to no step.
func (p *Printer) Note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	fmt.Fprintf(p.w, "  "+format+"\n", args...)
}

func (p *Printer) end(t *Task, mark, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active = slices.DeleteFunc(p.active, func(other *Task) bool { return other == t })
	if len(p.active) == 0 {
		close(p.stop)
	}
	p.line(mark, t.title, text)
}

func (p *Printer) line(mark, title, text string) {
	p.erase()
	fmt.Fprintf(p.w, "  %s %-42s %s\n", mark, title, text)
}

func (p *Printer) erase() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// tick keeps a person informed while steps are under way.
func (p *Printer) tick(stop <-chan struct{}) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			p.show()
		}
	}
}

// patience is how often a step under way is mentioned where lines cannot be
// rewritten.
const patience = 30 * time.Second

func (p *Printer) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.terminal {
		p.erase()
		var parts []string
		for _, t := range p.active {
			parts = append(parts, fmt.Sprintf("%s %s", t.title, Elapsed(now.Sub(t.begun))))
		}
		if len(parts) > 0 {
			fmt.Fprintf(p.w, "  · %.74s", strings.Join(parts, ", "))
			p.drawn = true
		}
		return
	}
	for _, t := range p.active {
		if now.Sub(t.printed) >= patience {
			t.printed = now
			p.line("·", t.title, Elapsed(now.Sub(t.begun))+" so far")
		}
	}
}

// Elapsed writes a duration as a person would say it: "0.4s", "12s", "4m12s".
func Elapsed(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
