// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/stats"
)

// Schema is the form of reports that this version writes and reads.
const Schema = "plumbline.dev/bench/v1"

// Report is one measurement.
type Report struct {
	Schema string `json:"schema"`
	// Kind is the measurement's name on the command line.
	Kind string `json:"kind"`
	// Variable is what the arms differ in, declared and checked.
	Variable plan.Variable `json:"variable"`
	Started  time.Time     `json:"started"`
	Versions Versions      `json:"versions"`
	Figure   Figure        `json:"figure"`
	// Seconds are those of each run; 0 where a run is of so many Iterations of so many Bytes.
	Seconds    int `json:"seconds"`
	Iterations int `json:"iterations,omitempty"`
	Bytes      int `json:"bytes,omitempty"`
	// Repeats is how often the tool ran for each value, which is the median; once where it is
	// absent.
	Repeats int `json:"repeats,omitempty"`
	// Counted is what Sent, Received and Astray of the runs are; bytes where it is absent.
	Counted plan.Unit `json:"counted,omitempty"`
	A       Arm       `json:"a"`
	B       Arm       `json:"b"`
	Pods    []Pod     `json:"pods"`
	// Runs are all, in their order, those of the warm-up and those thrown out among them.
	Runs []Run `json:"runs"`
	// ThrownOut is how many runs were not as planned.
	ThrownOut int     `json:"thrownOut"`
	Verdict   Verdict `json:"verdict"`
}

// Versions are those of what measured.
type Versions struct {
	Plumbline  string `json:"plumbline"`
	Kubernetes string `json:"kubernetes,omitempty"`
	Tool       string `json:"tool,omitempty"`
}

// Figure is what each run measured.
type Figure struct {
	Name           string `json:"name"`
	Unit           string `json:"unit"`
	HigherIsBetter bool   `json:"higherIsBetter"`
}

// Arm is one case.
type Arm struct {
	Name      string        `json:"name"`
	Interface string        `json:"interface,omitempty"`
	Devices   []plan.Device `json:"devices"`
	// Addresses are the server's and the client's.
	Addresses []string `json:"addresses,omitempty"`
	// RDMADevices are the server's and the client's, as they are called in the pods, and CPUs
	// the lists to which the tool was bound there.
	RDMADevices []string `json:"rdmaDevices,omitempty"`
	CPUs        []string `json:"cpus,omitempty"`
}

// Pod is one that the tool ran in.
type Pod struct {
	Role string `json:"role"`
	Node string `json:"node"`
	// Kernel is the node's.
	Kernel string `json:"kernel,omitempty"`
	Image  string `json:"image"`
	// ImageID is what the image's name stood for.
	ImageID string                        `json:"imageID,omitempty"`
	Claim   resourceapi.ResourceClaimSpec `json:"claim"`
}

// Letter says which arm a run is of.
type Letter string

// Letters.
const (
	A Letter = "A"
	B Letter = "B"
)

// Run is one run of the tool.
type Run struct {
	// Turn counts from 1; 0 is the warm-up.
	Turn int    `json:"turn"`
	Arm  Letter `json:"arm"`
	// Value is absent where the run gave none.
	Value *float64 `json:"value,omitempty"`
	// Values are those of which Value is the median, where the tool ran more than once.
	Values []float64 `json:"values,omitempty"`
	// Says is what else the tool said of it, such as the share of a GPU's peak.
	Says string `json:"says,omitempty"`
	// Retransmits is absent where nobody counted.
	Retransmits *int64 `json:"retransmits,omitempty"`
	// Sent are the client's bytes by the arm's interface, Received the server's, and Astray
	// those by the pods' other interfaces, as the kernel counts them; or packets, by RDMA
	// devices.
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
	Astray   int64 `json:"astray"`
	// Before and After are what verify said of both pods.
	Before []Verified `json:"before"`
	After  []Verified `json:"after"`
	// ThrownOut says why the run does not count; empty where it does.
	ThrownOut string `json:"thrownOut,omitempty"`
}

// Verified is verify's two answers of a pod.
type Verified struct {
	Role      string `json:"role"`
	AsClaimed string `json:"asClaimed"`
	Aligned   string `json:"aligned"`
	// Message says what is not as claimed.
	Message string `json:"message,omitempty"`
}

// Verdict is what the turns say of B against A.
type Verdict struct {
	// Turns are those of which both runs count.
	Turns   int           `json:"turns"`
	MedianA float64       `json:"medianA"`
	MedianB float64       `json:"medianB"`
	Ratio   float64       `json:"ratio"`
	Low     *float64      `json:"low,omitempty"`
	High    *float64      `json:"high,omitempty"`
	Percent int           `json:"confidencePercent"`
	Answer  stats.Verdict `json:"answer"`
	// Seed draws the same interval of the same turns.
	Seed uint64 `json:"seed"`
}

// Judge counts the runs and compares the arms by the turns of which both runs count.
func (r *Report) Judge(seed uint64) error {
	r.ThrownOut = 0
	for _, run := range r.Runs {
		if run.ThrownOut != "" {
			r.ThrownOut++
		}
	}
	c, err := stats.Compare(r.Turns(), seed)
	if err != nil {
		return fmt.Errorf("compare the arms: %w", err)
	}
	r.Verdict = Verdict{
		Turns: c.Pairs, MedianA: c.MedianA, MedianB: c.MedianB, Ratio: c.Ratio, Percent: stats.Confidence, Answer: c.Verdict, Seed: c.Seed,
	}
	if c.Interval != nil {
		r.Verdict.Low, r.Verdict.High = &c.Interval.Low, &c.Interval.High
	}
	return nil
}

// Turns are those of which both runs count.
func (r *Report) Turns() []stats.Pair {
	byTurn := map[int]map[Letter]float64{}
	for _, run := range r.Runs {
		if run.Turn == 0 || run.ThrownOut != "" || run.Value == nil {
			continue
		}
		if byTurn[run.Turn] == nil {
			byTurn[run.Turn] = map[Letter]float64{}
		}
		byTurn[run.Turn][run.Arm] = *run.Value
	}
	var turns []stats.Pair
	// Not by counting up: the number of a turn in a file may be any.
	for _, turn := range slices.Sorted(maps.Keys(byTurn)) {
		if both := byTurn[turn]; len(both) == 2 {
			turns = append(turns, stats.Pair{A: both[A], B: both[B]})
		}
	}
	return turns
}

// ErrReport is of a file that is no report of this schema.
var ErrReport = errors.New("no report")

// maxReport bounds what is read.
const maxReport = 16 << 20

// Read reads a report as JSON, and holds its verdict to its runs.
func Read(r io.Reader) (*Report, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxReport+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxReport {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrReport, maxReport)
	}
	var report Report
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if report.Schema != Schema {
		return nil, fmt.Errorf("%w: schema %q, want %s", ErrReport, report.Schema, Schema)
	}
	if err := report.checkRuns(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReport, err)
	}
	again := report
	if err := again.Judge(report.Verdict.Seed); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if again.Verdict.Answer != report.Verdict.Answer || again.Verdict.Turns != report.Verdict.Turns || again.ThrownOut != report.ThrownOut {
		return nil, fmt.Errorf("%w: it says %q of %d turns, and its runs come to %q of %d", ErrReport,
			report.Verdict.Answer, report.Verdict.Turns, again.Verdict.Answer, again.Verdict.Turns)
	}
	for _, one := range []struct {
		name       string
		said, come *float64
	}{
		{"median of A", &report.Verdict.MedianA, &again.Verdict.MedianA},
		{"median of B", &report.Verdict.MedianB, &again.Verdict.MedianB},
		{"ratio", &report.Verdict.Ratio, &again.Verdict.Ratio},
		{"lower end", report.Verdict.Low, again.Verdict.Low},
		{"upper end", report.Verdict.High, again.Verdict.High},
	} {
		if !alike(one.said, one.come) {
			return nil, fmt.Errorf("%w: its verdict's %s is %s, and its runs come to %s", ErrReport, one.name, shown(one.said), shown(one.come))
		}
	}
	return &report, nil
}

// checkRuns refuses runs that no measurement has: of a third arm, or two of one arm and turn.
func (r *Report) checkRuns() error {
	type place struct {
		turn int
		arm  Letter
	}
	seen := map[place]bool{}
	for i, run := range r.Runs {
		at := place{run.Turn, run.Arm}
		switch {
		case run.Arm != A && run.Arm != B:
			return fmt.Errorf("run %d is of arm %q: want %s or %s", i+1, run.Arm, A, B)
		case run.Turn < 0:
			return fmt.Errorf("run %d is of turn %d: want 0 or more", i+1, run.Turn)
		case seen[at]:
			return fmt.Errorf("run %d is a second one of arm %s in turn %d: want one", i+1, run.Arm, run.Turn)
		}
		if len(run.Values) > 0 {
			median, err := stats.Median(run.Values)
			if err != nil {
				return fmt.Errorf("run %d: %w", i+1, err)
			}
			if !alike(run.Value, &median) {
				return fmt.Errorf("run %d is %s, and the median of its values is %v", i+1, shown(run.Value), median)
			}
		}
		seen[at] = true
	}
	return nil
}

// alike says whether two numbers are the same but for how processors round.
func alike(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	const rounding = 1e-9
	return math.Abs(*a-*b) <= rounding*max(math.Abs(*a), math.Abs(*b))
}

func shown(number *float64) string {
	if number == nil {
		return "none"
	}
	return fmt.Sprint(*number)
}
