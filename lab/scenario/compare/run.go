// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"context"
	"fmt"
	"slices"
	"time"

	"plumbline.dev/plumbline/lab/progress"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Config is a node with the agents to compare, of which the first is on.
type Config struct {
	harness.Cluster
	Agents []Agent
	// NICs are the names of the node's NICs; Links lists its links without starting
	// anything there.
	NICs  []string
	Links func() ([]string, error)
	// Reset is a script that gives the NICs what they have before each pod.
	Reset    string
	Progress *progress.Printer
}

// Counts are of NICs in the pods that are measured.
var Counts = []int{0, 1, 8}

// Each agent has its turn Turns times, with podsInTurn pods of each count.
const (
	Turns      = 3
	podsInTurn = 4
)

// rest is how long the cluster is left alone before each creation and deletion:
// what the last one started must not slow the next one. patience is how long
// anything may take.
const (
	rest     = 500 * time.Millisecond
	patience = 2 * time.Minute
)

// Measured is one agent's, in medians.
type Measured struct {
	// Ready and Back are of pods by their number of NICs.
	Ready, Back map[int]time.Duration
	Memory      Memory
}

// Beyond is how long a pod with NICs takes beyond one without.
func (m Measured) Beyond(nics int) time.Duration { return m.Ready[nics] - m.Ready[0] }

// run is one comparison.
type run struct{ Config }

// Measure runs the agents by turns and returns what each took, in their order. It
// leaves the first one on.
func Measure(ctx context.Context, c Config) (results []Measured, err error) {
	r := &run{c}
	err = harness.Run(ctx, patience, r.cleanUp, func(ctx context.Context) error {
		results, err = r.measure(ctx)
		return err
	})
	return results, err
}

func (r *run) measure(ctx context.Context) (results []Measured, err error) {
	if err := r.setUp(ctx); err != nil {
		return nil, err
	}
	samples := make([]sample, len(r.Agents))
	on := 0
	for turn := range Turns {
		for step := range r.Agents {
			// Who comes last in a turn comes first in the next: half the changes.
			i := (turn + step) % len(r.Agents)
			if i != on {
				if err := r.swap(ctx, r.Agents[on], r.Agents[i]); err != nil {
					return nil, err
				}
				on = i
			}
			if err := r.round(ctx, r.Agents[i], turn, &samples[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", r.Agents[i].DaemonSet, err)
			}
		}
	}
	if on != 0 {
		err = r.swap(ctx, r.Agents[on], r.Agents[0])
	}
	for _, s := range samples {
		results = append(results, s.medians())
	}
	return results, err
}

// swap ends one agent's turn and begins another's.
func (r *run) swap(ctx context.Context, from, to Agent) error {
	if err := r.turn(ctx, from, false); err != nil {
		return err
	}
	return r.turn(ctx, to, true)
}

// round takes pods of each count through their lives, and weighs the agent.
func (r *run) round(ctx context.Context, a Agent, turn int, s *sample) (err error) {
	task := r.Progress.Start(fmt.Sprintf("pods with %s, turn %d of %d", a.DaemonSet, turn+1, Turns))
	defer func() {
		if err != nil {
			task.Fail()
		} else {
			task.Done("measured")
		}
	}()
	if _, err := r.live(ctx, slices.Max(Counts)); err != nil { // fills every cache
		return err
	}
	for range podsInTurn {
		for _, nics := range Counts {
			l, err := r.live(ctx, nics)
			if err != nil {
				return err
			}
			s.add(nics, l)
		}
	}
	m, err := r.memory(ctx, a)
	s.memory = append(s.memory, m)
	return err
}

// sample is all that was measured of one agent.
type sample struct {
	ready, back map[int][]time.Duration
	memory      []Memory
}

func (s *sample) add(nics int, l Life) {
	if s.ready == nil {
		s.ready, s.back = map[int][]time.Duration{}, map[int][]time.Duration{}
	}
	s.ready[nics] = append(s.ready[nics], l.Ready)
	s.back[nics] = append(s.back[nics], l.Back)
}

func (s *sample) medians() Measured {
	m := Measured{Ready: map[int]time.Duration{}, Back: map[int]time.Duration{}}
	for nics := range s.ready {
		m.Ready[nics], m.Back[nics] = median(s.ready[nics]), median(s.back[nics])
	}
	var resident, proportional []int64
	for _, w := range s.memory {
		resident, proportional = append(resident, w.Resident), append(proportional, w.Proportional)
	}
	m.Memory = Memory{Resident: median(resident), Proportional: median(proportional)}
	return m
}

// median is 0 of nothing; of an even number the mean of the two in the middle.
func median[T ~int64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
