// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/report"
	"plumbline.dev/plumbline/internal/bench/stats"
	"plumbline.dev/plumbline/internal/printable"
)

// asClaimed is verify's answer of a pod that is.
const asClaimed = "True"

// turns has both arms run by turns, A B and then B A. The first turn is not counted; what
// gives no figure there gives none later, so that it ends everything.
func (m *measurement) turns(ctx context.Context) error {
	began := m.Now()
	for turn := 0; turn <= m.settings.Pairs; turn++ {
		order := []report.Letter{report.A, report.B}
		if turn%2 == 1 {
			order = []report.Letter{report.B, report.A}
		}
		shown := map[report.Letter]string{}
		for _, letter := range order {
			run, err := m.once(ctx, turn, letter)
			if err != nil {
				return err
			}
			m.report.Runs = append(m.report.Runs, run)
			shown[letter] = m.shown(run)
		}
		m.tell(turn, shown, m.Now().Sub(began))
	}
	return nil
}

// tell says how a turn went, and how long the others may take.
func (m *measurement) tell(turn int, shown map[report.Letter]string, took time.Duration) {
	name := fmt.Sprintf("turn %d of %d", turn, m.settings.Pairs)
	if turn == 0 {
		name = "warm-up"
	}
	left := took / time.Duration(turn+1) * time.Duration(m.settings.Pairs-turn)
	m.Progress(fmt.Sprintf("%s: %s %s, %s %s; %s left", name, m.plan.A.Name, shown[report.A], m.plan.B.Name, shown[report.B], left.Round(time.Second)))
}

func (m *measurement) shown(run report.Run) string {
	if run.ThrownOut != "" {
		return "thrown out (" + run.ThrownOut + ")"
	}
	return fmt.Sprintf("%.2f %s", *run.Value, m.report.Figure.Unit)
}

// once is one run of the tool, with what proves it before and after.
func (m *measurement) once(ctx context.Context, turn int, letter report.Letter) (report.Run, error) {
	run := report.Run{Turn: turn, Arm: letter}
	why, err := m.measure(ctx, &run, m.targets[letter])
	// A pod that goes is the reason of whatever went wrong.
	if gone := m.stay(ctx); gone != nil {
		return run, gone
	}
	if err != nil {
		return run, err
	}
	if run.ThrownOut == "" && why != nil {
		if turn == 0 {
			return run, fmt.Errorf("%w: arm %s: %w", ErrOutput, m.targets[letter].arm.Name, why)
		}
		run.ThrownOut = why.Error()
	}
	return run, nil
}

// measure fills the run in. why is what the tool did not do; err ends everything.
func (m *measurement) measure(ctx context.Context, run *report.Run, t target) (why, err error) {
	if run.Before, err = m.verified(ctx); err != nil {
		return nil, err
	}
	var before, after [2]map[string]counters
	if err := m.readBoth(ctx, &before); err != nil {
		return nil, err
	}
	result, why, err := m.repeat(ctx, run, t)
	if err != nil || why != nil {
		return why, err
	}
	if err := m.readBoth(ctx, &after); err != nil {
		return nil, err
	}
	if run.After, err = m.verified(ctx); err != nil {
		return nil, err
	}
	if result.Version != "" {
		m.report.Versions.Tool = printable.Text(result.Version)
	}
	run.Value, run.Retransmits = &result.Value, result.Retransmits
	run.Says = printable.Text(result.Says)
	count(run, t, since(before[0], after[0]), since(before[1], after[1]))
	run.ThrownOut = m.unplanned(run, result.Load)
	return nil, nil
}

// repeat has the tool run as often as one run wants it, whose value is the median.
func (m *measurement) repeat(ctx context.Context, run *report.Run, t target) (all plan.Reading, why, err error) {
	var values []float64
	for range m.settings.Repeats {
		one, why, err := m.execute(ctx, t)
		if err != nil || why != nil {
			return plan.Reading{}, why, err
		}
		values = append(values, one.Value)
		one.Load.Said += all.Load.Said
		if one.Retransmits != nil && all.Retransmits != nil {
			*one.Retransmits += *all.Retransmits
		}
		all = one
	}
	if all.Value, err = stats.Median(values); err != nil {
		return plan.Reading{}, err, nil
	}
	if len(values) > 1 {
		run.Values = values
	}
	return all, nil, nil
}

// count sorts what the pods' NICs carried into the arm's and the others'.
func count(run *report.Run, t target, server, client map[string]counters) {
	run.Received, run.Sent = server[t.carriers[0]].received, client[t.carriers[1]].sent
	for name, c := range server {
		if name != t.carriers[0] {
			run.Astray += c.received
		}
	}
	for name, c := range client {
		if name != t.carriers[1] {
			run.Astray += c.sent
		}
	}
}

func (m *measurement) readBoth(ctx context.Context, into *[2]map[string]counters) (err error) {
	if m.plan.Tool.Carrier == plan.Uncounted {
		return nil
	}
	for i, side := range m.plan.Sides() {
		if into[i], err = m.readCounters(ctx, i, side.Role); err != nil {
			return err
		}
	}
	return nil
}

// verified is what verify says of both pods.
func (m *measurement) verified(ctx context.Context) ([]report.Verified, error) {
	var all []report.Verified
	for _, side := range m.plan.Sides() {
		v, err := m.Verify(ctx, m.pods[side.Role])
		if err != nil {
			return nil, fmt.Errorf("verify pod %s: %w", side.Pod.Name, err)
		}
		v.Role = side.Role
		all = append(all, v)
	}
	return all, nil
}

// awaitVerified waits until both pods are as claimed: an agent learns of a pod that has just
// started a moment later.
func (m *measurement) awaitVerified(ctx context.Context) error {
	var wrong string
	err := m.await(ctx, func(ctx context.Context) (bool, error) {
		all, err := m.verified(ctx)
		wrong = notAsClaimed(all)
		return err == nil && wrong == "", err
	})
	if errors.Is(err, errPatience) {
		return fmt.Errorf("the pods are not as claimed after %s: %s", m.Patience, wrong)
	}
	return err
}

func notAsClaimed(all []report.Verified) string {
	for _, v := range all {
		if v.AsClaimed != asClaimed {
			return fmt.Sprintf("%s: as claimed is %s: %s", v.Role, v.AsClaimed, v.Message)
		}
	}
	return ""
}

// astray is the part of a run's load that may go by other interfaces, such as kubectl's exec.
const astray = 0.05

// unplanned says why a run does not count: alignment or path was not as planned, or a clock
// jumped, so that the kernel counted other than the tool says.
func (m *measurement) unplanned(run *report.Run, load plan.Load) string {
	var reasons []string
	if wrong := notAsClaimed(run.Before); wrong != "" {
		reasons = append(reasons, "before it, "+wrong)
	}
	if wrong := notAsClaimed(run.After); wrong != "" {
		reasons = append(reasons, "after it, "+wrong)
	}
	if m.plan.Tool.Carrier == plan.Uncounted {
		return strings.Join(reasons, "; ")
	}
	t := m.targets[run.Arm]
	for _, one := range []struct {
		what, carrier string
		count         int64
	}{{"sent", t.carriers[1], run.Sent}, {"received", t.carriers[0], run.Received}} {
		if part := float64(one.count) / load.Said; part < load.Fewest || part > load.Most {
			reasons = append(reasons, fmt.Sprintf("%d %s were %s by %s, %.2f of the %.0f that the tool says", one.count, load.Unit, one.what, one.carrier, part, load.Said))
		}
	}
	if float64(run.Astray) > astray*load.Said {
		reasons = append(reasons, fmt.Sprintf("%d %s went by other %s than %s", run.Astray, load.Unit, m.others(), t.carriers[1]))
	}
	return strings.Join(reasons, "; ")
}

func (m *measurement) others() string {
	if m.plan.Tool.Carrier == plan.RDMADevices {
		return "RDMA devices"
	}
	return "interfaces"
}
