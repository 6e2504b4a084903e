// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"fmt"
	"strings"
)

// result is what the lab's allreduce prints at its end (lab/build).
type result struct {
	ranks, rounds, bytes, wrong int
}

const resultFormat = "ALLREDUCE_RESULT ranks=%d rounds=%d bytes=%d wrong=%d"

// String is the line that was printed.
func (r result) String() string {
	return fmt.Sprintf(resultFormat, r.ranks, r.rounds, r.bytes, r.wrong)
}

// readResult finds the result in a launcher's log, which has one.
func readResult(log string) (result, error) {
	var found []result
	for line := range strings.Lines(log) {
		var r result
		// Sscanf stops after the last number; what follows it must be nothing.
		line = strings.TrimSpace(line)
		if n, err := fmt.Sscanf(line, resultFormat, &r.ranks, &r.rounds, &r.bytes, &r.wrong); err == nil && n == 4 && r.String() == line {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		return result{}, fmt.Errorf("want one line ALLREDUCE_RESULT in the launcher's log, got %d", len(found))
	}
	return found[0], nil
}

// hosts are where the ranks ran, as each printed.
func hosts(log string) []string {
	var all []string
	for line := range strings.Lines(log) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "ALLREDUCE_RANK" {
			all = append(all, strings.TrimPrefix(words[2], "host="))
		}
	}
	return all
}

// right says whether all ranks added up what they should.
func (r result) right(ranks int) bool {
	return r.ranks == ranks && r.rounds > 0 && r.bytes > 0 && r.wrong == 0
}

// least is how many bytes each of the ranks must send, whatever the algorithm: of n ranks
// each has to send 2(n-1)/n of the vector in each round.
func (r result) least() int { return r.rounds * r.bytes * 2 * (r.ranks - 1) / r.ranks }
