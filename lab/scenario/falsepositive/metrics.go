// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package falsepositive

import (
	"strconv"
	"strings"
)

// parseLooked reads the agent's metrics, in Prometheus' text format.
func parseLooked(text string) looked {
	var l looked
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
		case name == "plumbline_agent_verify_seconds_count":
			l.looks = n
		case strings.HasPrefix(name, "plumbline_agent_misalignments_total"):
			l.misaligned += n
		}
	}
	return l
}
