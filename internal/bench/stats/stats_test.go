// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package stats_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/perf/benchmath"

	"plumbline.dev/plumbline/internal/bench/stats"
)

// turns are pairs whose B is so many times A, give or take a twentieth.
func turns(random *rand.Rand, n int, ratio float64) []stats.Pair {
	pairs := make([]stats.Pair, n)
	for i := range pairs {
		a := 1 + random.Float64()
		pairs[i] = stats.Pair{A: a, B: a * ratio * (0.95 + 0.1*random.Float64())}
	}
	return pairs
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}, {[]float64{8, 1, 4, 2}, 3}, {[]float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64}} {
		before := slices.Clone(c.values)
		if got, err := stats.Median(c.values); err != nil || got != c.want {
			t.Errorf("%v: %v, %v, want %v", c.values, got, err, c.want)
		}
		if diff := cmp.Diff(before, c.values); diff != "" {
			t.Errorf("it changed its numbers: %s", diff)
		}
	}
	for _, values := range [][]float64{nil, {1, 0}, {-1}, {math.NaN()}, {1, math.Inf(1)}} {
		if got, err := stats.Median(values); !errors.Is(err, stats.ErrValue) {
			t.Errorf("%v: %v, %v", values, got, err)
		}
	}
}

// The Go project's benchmath says what the middle is without any assumption of how the
// numbers are distributed.
func TestMedianAgainstBenchmath(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 60; n++ {
		values := make([]float64, n)
		for i := range values {
			values[i] = random.ExpFloat64() + 1e-9
		}
		want := benchmath.AssumeNothing.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), 0.95).Center
		if got, err := stats.Median(values); err != nil || !near(got, want, 1e-12) {
			t.Errorf("%d numbers: %v, %v, benchmath says %v", n, got, err, want)
		}
	}
}

func TestCompare(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name  string
		pairs []stats.Pair
		want  stats.Verdict
	}{
		{"none", nil, stats.TooFew},
		{"four that are clear", turns(random, 4, 2), stats.TooFew},
		{"five that are clear", turns(random, 5, 3), stats.Higher},
		{"twenty a half", turns(random, 20, 0.5), stats.Lower},
		{"twenty the same", turns(random, 20, 1), stats.NoDifference},
		{"all equal: the interval is 1 alone", slices.Repeat([]stats.Pair{{A: 5, B: 5}}, 7), stats.NoDifference},
		{"no noise at all", slices.Repeat([]stats.Pair{{A: 5, B: 5.5}}, 5), stats.Higher},
	} {
		got, err := stats.Compare(c.pairs, 7)
		if err != nil || got.Verdict != c.want || got.Pairs != len(c.pairs) || got.Seed != 7 {
			t.Errorf("%s: %+v, %v, want %s", c.name, got, err, c.want)
		}
		if (got.Interval == nil) != (c.want == stats.TooFew) {
			t.Errorf("%s: interval %v", c.name, got.Interval)
		}
		if i := got.Interval; i != nil && (i.Low > got.Ratio || got.Ratio > i.High) {
			t.Errorf("%s: %v is outside of %v", c.name, got.Ratio, *i)
		}
	}
}

// The published figures are one run each.
func TestOneRunIsNoComparison(t *testing.T) {
	got, err := stats.Compare([]stats.Pair{{A: 1191.19, B: 1321.51}}, 1)
	if err != nil || got.Verdict != stats.TooFew || !near(got.Ratio, 1.1094, 1e-4) || got.Interval != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCompareRefuses(t *testing.T) {
	for name, pair := range map[string]stats.Pair{
		"turn 6, case A": {A: 0, B: 1}, "turn 6, case B": {A: 1, B: math.NaN()},
		"have no ratio": {A: 1e-300, B: 1e300},
	} {
		pairs := append(slices.Repeat([]stats.Pair{{A: 1, B: 1}}, 5), pair)
		if got, err := stats.Compare(pairs, 1); !errors.Is(err, stats.ErrValue) || !strings.Contains(err.Error(), name) || got != (stats.Comparison{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, value := range []float64{math.Inf(1), math.Inf(-1), -1} {
		if _, err := stats.Compare([]stats.Pair{{A: value, B: 1}}, 1); !errors.Is(err, stats.ErrValue) {
			t.Errorf("%v: %v", value, err)
		}
	}
}

// quantiles are those of the ratio over every resample that there is, each as likely as the
// next: what any number of random ones tends to. It shares nothing with the package: it
// counts in base n, and finds medians by how many are below.
func quantiles(pairs []stats.Pair, parts ...float64) []float64 {
	n := len(pairs)
	total := int(math.Pow(float64(n), float64(n)))
	ratios := make([]float64, 0, total)
	for number := range total {
		var a, b []float64
		for range pairs {
			a, b = append(a, pairs[number%n].A), append(b, pairs[number%n].B)
			number /= n
		}
		ratios = append(ratios, middle(b)/middle(a))
	}
	slices.Sort(ratios)
	var found []float64
	for _, part := range parts {
		found = append(found, ratios[int(part*float64(total-1))])
	}
	return found
}

func middle(values []float64) float64 {
	at := func(rank int) float64 {
		for _, candidate := range values {
			below, upTo := 0, 0
			for _, value := range values {
				if value < candidate {
					below++
				}
				if value <= candidate {
					upTo++
				}
			}
			if below <= rank && rank < upTo {
				return candidate
			}
		}
		return math.NaN()
	}
	return (at((len(values)-1)/2) + at(len(values)/2)) / 2
}

// Of ten thousand draws the share below a quantile is right within 0.8 in a hundred, five
// times its standard deviation. The resamples have few distinct ratios, so the ends must lie
// between the exact quantiles on either side.
func TestIntervalAgainstEveryResample(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for n := stats.FewestPairs; n <= 6; n++ {
		for round := range 8 - n { // six have 46,656 resamples
			pairs := turns(random, n, 0.9+0.2*float64(round))
			got, err := stats.Compare(pairs, uint64(round))
			if err != nil {
				t.Fatal(err)
			}
			const slack = 1e-9
			exact := quantiles(pairs, 0.017, 0.033, 0.967, 0.983)
			if got.Interval.Low < exact[0]-slack || got.Interval.Low > exact[1]+slack || got.Interval.High < exact[2]-slack || got.Interval.High > exact[3]+slack {
				t.Errorf("%d turns %v: %+v, of all resamples %v", n, pairs, *got.Interval, exact)
			}
			if want := middle(bs(pairs)) / middle(as(pairs)); !near(got.Ratio, want, 1e-12) {
				t.Errorf("ratio %v, want %v", got.Ratio, want)
			}
		}
	}
}

func as(pairs []stats.Pair) (a []float64) {
	for _, pair := range pairs {
		a = append(a, pair.A)
	}
	return a
}

func bs(pairs []stats.Pair) (b []float64) {
	for _, pair := range pairs {
		b = append(b, pair.B)
	}
	return b
}

// An interval of 95 % must hold the truth about that often. The bootstrap of a median is
// known to be somewhat off with few turns: what may not happen is that it is far off.
func TestIntervalHoldsTheTruth(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 9))
	const runs, turnsEach, truth = 100, 15, 1.1
	held := 0
	for seed := range uint64(runs) {
		pairs := make([]stats.Pair, turnsEach)
		for i := range pairs {
			pairs[i] = stats.Pair{A: math.Exp(0.05 * random.NormFloat64()), B: truth * math.Exp(0.05*random.NormFloat64())}
		}
		got, err := stats.Compare(pairs, seed)
		if err != nil {
			t.Fatal(err)
		}
		if got.Interval.Low <= truth && truth <= got.Interval.High {
			held++
		}
	}
	if held < runs*88/100 {
		t.Errorf("%d of %d intervals hold the truth", held, runs)
	}
}

func TestProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(10, 11))
	for round := range 10 {
		seed := uint64(round)
		pairs := turns(random, 5+random.IntN(20), 0.8+0.4*random.Float64())
		base, err := stats.Compare(pairs, seed)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := stats.Compare(pairs, seed)
		if diff := cmp.Diff(base, again); diff != "" {
			t.Errorf("the same seed, another answer: %s", diff)
		}
		t.Run(fmt.Sprintf("scale/%d", round), func(t *testing.T) {
			scaled := make([]stats.Pair, len(pairs))
			for i, pair := range pairs {
				scaled[i] = stats.Pair{A: pair.A * 1024, B: pair.B * 1024}
			}
			got, _ := stats.Compare(scaled, seed)
			got.MedianA, got.MedianB = got.MedianA/1024, got.MedianB/1024
			if diff := cmp.Diff(base, got); diff != "" {
				t.Errorf("another unit, another answer: %s", diff)
			}
		})
		t.Run(fmt.Sprintf("swap/%d", round), func(t *testing.T) {
			swapped := make([]stats.Pair, len(pairs))
			for i, pair := range pairs {
				swapped[i] = stats.Pair{A: pair.B, B: pair.A}
			}
			got, _ := stats.Compare(swapped, seed)
			if !near(got.Ratio, 1/base.Ratio, 1e-12) || !near(got.Interval.Low, 1/base.Interval.High, 1e-12) || !near(got.Interval.High, 1/base.Interval.Low, 1e-12) {
				t.Errorf("%+v %+v, swapped %+v %+v", base, *base.Interval, got, *got.Interval)
			}
			opposite := map[stats.Verdict]stats.Verdict{stats.Higher: stats.Lower, stats.Lower: stats.Higher, stats.NoDifference: stats.NoDifference}
			if got.Verdict != opposite[base.Verdict] {
				t.Errorf("%s, swapped %s", base.Verdict, got.Verdict)
			}
		})
	}
}

func near(a, b, part float64) bool { return math.Abs(a-b) <= part*math.Abs(b) }

func FuzzCompare(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, uint64(1))
	f.Add(math.NaN(), 0.0, -1.0, uint64(2))
	f.Add(1e-308, 1e308, 1.0, uint64(3))
	f.Fuzz(func(t *testing.T, a, b, c float64, seed uint64) {
		got, err := stats.Compare([]stats.Pair{{a, b}, {b, c}, {c, a}, {a, a}, {b, b}}, seed)
		if err != nil {
			return
		}
		for _, value := range []float64{got.MedianA, got.MedianB, got.Ratio, got.Interval.Low, got.Interval.High} {
			if math.IsNaN(value) || math.IsInf(value, 0) || value <= 0 {
				t.Errorf("%+v %+v", got, *got.Interval)
			}
		}
		if got.Interval.Low > got.Interval.High {
			t.Errorf("%+v", *got.Interval)
		}
	})
}
