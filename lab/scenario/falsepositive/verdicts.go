// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package falsepositive

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// agentScript runs the agent's own command line where it runs, on the node.
const agentScript = harness.FindProcess + `agent=$(find_agent) || { echo "no agent runs" >&2; exit 1; }
exec nsenter -t "$agent" -m /usr/bin/plumbline-agent "$@"`

// verifyCounts counts the agent's verifications of its pods, and the pods that it found
// misaligned.
type verifyCounts struct{ verifications, misaligned int }

func (r *run) verifyCounts(ctx context.Context) (l verifyCounts, err error) {
	text, err := r.Shell(ctx, agentScript, "metrics")
	if err != nil {
		return l, fmt.Errorf("read the agent's figures: %w", err)
	}
	return parseVerifyCounts(text), nil
}

// verdictEvery is how often the agent is asked for its verdict, as plumbline verify
// does: that must be no false alarm either.
const verdictEvery = 300 * time.Millisecond

// ask asks until the context ends, and returns how often.
func (r *run) pollVerdicts(ctx context.Context) (asked int, alarms []Alarm, err error) {
	for {
		text, err := r.Shell(ctx, agentScript, "verify")
		if ctx.Err() != nil {
			return asked, alarms, nil
		}
		if err != nil {
			return asked, alarms, fmt.Errorf("ask the agent: %w", err)
		}
		asked++
		var report verify.Report
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			return asked, alarms, fmt.Errorf("read the agent's answer: %w", err)
		}
		for _, p := range report.Pods {
			if p.Verdict == reasonMisaligned {
				alarms = append(alarms, Alarm{p.Name, fmt.Sprintf("answer %s (%s): %s", p.Verdict, p.Reason, p.Message)})
			}
		}
		select {
		case <-ctx.Done():
			return asked, alarms, nil
		case <-time.After(verdictEvery):
		}
	}
}

// parseVerifyCounts reads the agent's metrics, in Prometheus' text format.
func parseVerifyCounts(text string) verifyCounts {
	var l verifyCounts
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
		case name == "plumbline_agent_verify_seconds_count":
			l.verifications = n
		case strings.HasPrefix(name, "plumbline_agent_misalignments_total"):
			l.misaligned += n
		}
	}
	return l
}
