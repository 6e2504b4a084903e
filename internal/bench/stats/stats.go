// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// Resamples is how often the turns are drawn again for an interval.
	Resamples = 10_000
	// FewestPairs is how many turns an interval needs: of fewer, the resamples are too
	// much alike for the interval to mean anything.
	FewestPairs = 5
	// Confidence is the interval's, in percent.
	Confidence = 95
)

// ErrValue is of a number that cannot be compared.
var ErrValue = errors.New("no measurement")

// Pair is one turn: what case A gave in it, and what case B did.
type Pair struct{ A, B float64 }

// Verdict is what a comparison comes to: B against A.
type Verdict string

// Verdicts.
const (
	Higher       Verdict = "higher"
	Lower        Verdict = "lower"
	NoDifference Verdict = "no difference seen"
	TooFew       Verdict = "too few runs"
)

// Interval is where the ratio may be, both ends included.
type Interval struct{ Low, High float64 }

// Comparison is of all turns of two cases.
type Comparison struct {
	// Pairs is how many turns there were. Without any, the medians and the ratio are 0.
	Pairs            int
	MedianA, MedianB float64
	// Ratio is the median of B over that of A.
	Ratio float64
	// Interval is absent where the verdict is TooFew.
	Interval *Interval
	Verdict  Verdict
	// Seed is what the resamples were drawn with: whoever has the pairs can draw them again.
	Seed uint64
}

// Median is the middle of some numbers, or of an even count the mean of the two that are in
// the middle.
func Median(values []float64) (float64, error) {
	if len(values) == 0 {
		return 0, fmt.Errorf("%w: no numbers to take the median of", ErrValue)
	}
	for i, value := range values {
		if err := measured(value); err != nil {
			return 0, fmt.Errorf("number %d: %w", i+1, err)
		}
	}
	return median(slices.Clone(values)), nil
}

// Compare holds case B against case A.
func Compare(pairs []Pair, seed uint64) (Comparison, error) {
	c := Comparison{Pairs: len(pairs), Verdict: TooFew, Seed: seed}
	if len(pairs) == 0 {
		return c, nil
	}
	if err := haveRatios(pairs); err != nil {
		return Comparison{}, err
	}
	scratch := newScratch(len(pairs))
	for _, pair := range pairs {
		scratch.add(pair)
	}
	c.MedianA, c.MedianB, c.Ratio = scratch.medians()
	if len(pairs) < FewestPairs {
		return c, nil
	}
	c.Interval = bootstrap(pairs, seed)
	switch {
	case c.Interval.Low > 1:
		c.Verdict = Higher
	case c.Interval.High < 1:
		c.Verdict = Lower
	default:
		c.Verdict = NoDifference
	}
	return c, nil
}

// bootstrap is the percentile interval of the ratio. Its ends are as far from either end of
// the sorted ratios, so that B against A gives the inverse of A against B.
func bootstrap(pairs []Pair, seed uint64) *Interval {
	random := rand.New(rand.NewPCG(seed, 0))
	scratch := newScratch(len(pairs))
	ratios := make([]float64, Resamples)
	for i := range ratios {
		for range pairs {
			scratch.add(pairs[random.IntN(len(pairs))])
		}
		_, _, ratios[i] = scratch.medians()
	}
	slices.Sort(ratios)
	outside := Resamples * (100 - Confidence) / 200
	return &Interval{Low: ratios[outside-1], High: ratios[Resamples-outside]}
}

// scratch holds one resample: medians sort, and ten thousand resamples need no memory of
// their own.
type scratch struct{ a, b []float64 }

func newScratch(n int) *scratch {
	return &scratch{a: make([]float64, 0, n), b: make([]float64, 0, n)}
}

func (s *scratch) add(pair Pair) {
	s.a, s.b = append(s.a, pair.A), append(s.b, pair.B)
}

// medians are those of what was added since they were last asked for.
func (s *scratch) medians() (a, b, ratio float64) {
	a, b = median(s.a), median(s.b)
	s.a, s.b = s.a[:0], s.b[:0]
	return a, b, b / a
}

func median(values []float64) float64 {
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	low, high := values[middle-1], values[middle]
	return low + (high-low)/2 // the sum of two may be too large
}

// haveRatios refuses what no measurement gives, and numbers so far apart that no float64
// has their ratio.
func haveRatios(pairs []Pair) error {
	lowest, highest := math.Inf(1), 0.0
	for i, pair := range pairs {
		for _, side := range []struct {
			name  string
			value float64
		}{{"A", pair.A}, {"B", pair.B}} {
			if err := measured(side.value); err != nil {
				return fmt.Errorf("turn %d, case %s: %w", i+1, side.name, err)
			}
			lowest, highest = min(lowest, side.value), max(highest, side.value)
		}
	}
	if math.IsInf(highest/lowest, 0) || lowest/highest == 0 {
		return fmt.Errorf("%w: %v and %v have no ratio", ErrValue, lowest, highest)
	}
	return nil
}

func measured(value float64) error {
	if math.IsNaN(value) || math.IsInf(value, 0) || value <= 0 {
		return fmt.Errorf("%w: %v, want a number above 0", ErrValue, value)
	}
	return nil
}
