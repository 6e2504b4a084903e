// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// patience is how long a row waits until it is judged right, and limit how long a command
// may take: processors may be emulated.
const (
	patience = 5 * time.Minute
	limit    = 10 * time.Minute
	poll     = 2 * time.Second
)

// Config is what a run is to know.
type Config struct {
	Table *Table
	// Examples is the folder of the documents' manifests.
	Examples string
	// Start brings the machines up, by their names in the table.
	Start map[string]func(context.Context) (*Lab, error)
	// Only are the machines whose rows are run; none for all.
	Only []string
	Out  io.Writer
}

// run is a run of all rows.
type run struct {
	Config
	report harness.Report
	// typed, differ and left count rows: those run, those that differ as declared, and those
	// of which nothing is run.
	typed, differ, left int
}

// Run brings each machine up, runs its rows in their order, and stops it. One that is wrong
// ends nothing: the others are run, and tell more.
func Run(ctx context.Context, c Config) error {
	r := &run{Config: c, report: harness.Report{Scenario: "mission", Out: c.Out}}
	return r.report.Verdict(r.all(ctx))
}

// Check says what is wrong with the choice of machines, before one is started.
func (c Config) Check() error {
	for _, m := range c.Table.Machines {
		if c.Start[m.Name] == nil {
			return fmt.Errorf("machine %s of the table: the lab has none of that name", m.Name)
		}
	}
	for _, name := range c.Only {
		if c.Start[name] == nil {
			return fmt.Errorf("--only %q: want names of machines, of %s", name, strings.Join(c.Table.names(), ", "))
		}
	}
	return nil
}

func (t *Table) names() []string {
	var names []string
	for _, m := range t.Machines {
		names = append(names, m.Name)
	}
	return names
}

// Has says whether the rows of a machine are run.
func (c Config) Has(machine string) bool {
	return len(c.Only) == 0 || slices.Contains(c.Only, machine)
}

func (r *run) all(ctx context.Context) error {
	if err := r.Check(); err != nil {
		return err
	}
	for _, m := range r.Table.Machines {
		if !r.Has(m.Name) {
			continue
		}
		if err := r.on(ctx, m); err != nil {
			return fmt.Errorf("machine %s: %w", m.Name, err)
		}
	}
	fmt.Fprintf(r.Out, "\n%s run, of which %d are as printed; %s declared, of which nothing is run of %d; the table allows %d\n",
		plural.Count(r.typed, "row", "rows"), r.typed-r.differ, plural.Count(r.differ+r.left, "deviation", "deviations"), r.left, r.Table.Deviations)
	return nil
}

// on runs the rows of one machine.
func (r *run) on(ctx context.Context, m Machine) (err error) {
	lab, err := r.Start[m.Name](ctx)
	if lab != nil && lab.Stop != nil {
		defer func() { err = errors.Join(err, lab.Stop(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return err
	}
	t := &terminal{Lab: lab}
	if err := t.open(); err != nil {
		return err
	}
	for _, d := range r.Table.Documents {
		rows := d.rowsOn(m.Name)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(r.Out, "\n%s, on machine %s: %s\n\n", d.Title, m.Name, m.Is)
		if err := r.document(ctx, t, d, rows); err != nil {
			return err
		}
	}
	return nil
}

// document runs rows in a folder of the document's own. Commands that run beside others are
// judged in the end.
func (r *run) document(ctx context.Context, t *terminal, d Document, rows []Row) error {
	t.dir = filepath.Join(t.Folder, d.Name)
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	var beside []besides
	for _, row := range rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		if row.left() {
			r.left++
			fmt.Fprintf(r.Out, "  -      %s: %s, not run\n", row.ID, row.Deviation.Reason)
			continue
		}
		r.typed++
		if row.Deviation != nil {
			r.differ++
		}
		if err := r.save(ctx, t, d, row); err != nil {
			r.report.Finding(false, row.ID, "%v", err)
			continue
		}
		switch {
		case row.typed() == "" && (row.Deviation == nil || row.Deviation.Judge == nil):
			r.report.Finding(true, row.ID, "saved")
		case row.Background:
			b, err := start(ctx, t, row)
			if err != nil {
				r.report.Finding(false, row.ID, "%v", err)
				continue
			}
			beside = append(beside, b)
		default:
			r.row(ctx, t, row)
		}
	}
	for _, b := range beside {
		r.say(b.row, b.command, b.answer(ctx), b.step)
	}
	return ctx.Err()
}

// row runs and judges a row.
func (r *run) row(ctx context.Context, t *terminal, row Row) {
	step, command := row.here()
	if v := row.Deviation; v != nil && v.Command != "" && row.tried() {
		if printed, err := t.typed(ctx, row.Step, row.Command); err == nil && row.Judge.differs(row.Prints, printed) == nil {
			r.report.Finding(false, row.ID, "the declared deviation is none: %s does as the document prints it", row.Command)
			return
		}
	}
	answer, err := t.until(ctx, step, command)
	if err != nil {
		r.report.Finding(false, row.ID, "%v", err)
		return
	}
	if v := row.Deviation; v != nil && v.Judge != nil && v.Command == "" && row.tried() && row.Judge.differs(row.Prints, answer) == nil {
		r.report.Finding(false, row.ID, "the declared deviation is none: it prints what the document prints")
		return
	}
	r.say(row, command, answer, step)
}

// here is what is run for a row in the lab, and how.
func (r Row) here() (Step, string) {
	v := r.Deviation
	if v == nil || v.Judge == nil {
		return r.Step, r.typed()
	}
	step := v.Step
	if v.Command != "" {
		return step, v.Command
	}
	step.In, step.Fill = r.In, r.Fill
	return step, r.typed()
}

// tried says that the printed command of a row that differs is run all the same.
func (r Row) tried() bool {
	why, _ := reasonOf(r.Deviation.Reason)
	return why.typed && r.Command != "" && r.Judge != nil && !r.Background
}

// say reports how a row is judged. Of one that is wrong it shows what was printed.
func (r *run) say(row Row, command string, answer scenario.Answer, step Step) {
	differs := step.Judge.differs(step.Prints, answer)
	if differs == nil {
		declared := ""
		if row.Deviation != nil {
			declared = row.Deviation.Reason + ", "
		}
		r.report.Finding(true, row.ID, "%s%s", declared, firstLine(command))
		return
	}
	r.report.Finding(false, row.ID, "%v", differs)
	fmt.Fprintf(r.Out, "         $ %s\n", strings.ReplaceAll(strings.TrimSpace(command), "\n", "\n         "))
	for line := range strings.Lines(answer.Out + answer.Complaint) {
		fmt.Fprintf(r.Out, "         %s\n", strings.TrimRight(line, "\n"))
	}
}
