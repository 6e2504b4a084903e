// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/lab/scenario/falsepositive"
)

var all = slices.Concat(Everywhere, PCI)

func TestPlanIsTheSeeds(t *testing.T) {
	if diff := cmp.Diff(Plan(7, 100, all, false), Plan(7, 100, all, false)); diff != "" {
		t.Errorf("one seed, two plans:\n%s", diff)
	}
	if cmp.Equal(Plan(7, 100, all, false), Plan(8, 100, all, false)) {
		t.Error("two seeds, one plan")
	}
}

// Forty cycles must show each fault five times, whatever the seed.
func TestPlanDealsEveryFault(t *testing.T) {
	for seed := range uint64(50) {
		count := map[Fault]int{}
		for _, c := range Plan(seed, 5*len(all), all, false) {
			count[c.Fault]++
			if !slices.Contains(phases(c.Fault, false), c.Phase) || c.Delay < 0 || c.Delay > maxDelay {
				t.Errorf("seed %d: %s", seed, c)
			}
		}
		for _, f := range all {
			if count[f] != 5 {
				t.Errorf("seed %d: %s comes %d times, want 5", seed, f, count[f])
			}
		}
	}
}

func TestParseState(t *testing.T) {
	s, err := parseState("nic 0000:37:00.0 ens2f0 mtu=1500\nnamespace cni-1\nunused cni-2\nfile /var/lib/plumbline/a\nagent 42 3\n")
	if err != nil {
		t.Fatal(err)
	}
	want := State{
		Lines: []string{"file /var/lib/plumbline/a", "namespace cni-1", "nic 0000:37:00.0 ens2f0 mtu=1500"},
		Agent: 42, Namespaces: 3, Unused: 1,
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	if _, err := parseState("sh: readlink: not found\n"); err == nil {
		t.Error("a shell's complaint was taken for state")
	}
}

func TestCompareNamesWhatWasLost(t *testing.T) {
	before := State{Lines: []string{"nic a", "nic b"}, Namespaces: 1}
	for name, tt := range map[string]struct {
		now  State
		want string
	}{
		"same":            {State{Lines: []string{"nic b", "nic a"}, Namespaces: 1}, ""},
		"agent let go":    {State{Lines: []string{"nic a", "nic b"}}, ""},
		"lost":            {State{Lines: []string{"nic a"}, Namespaces: 1}, "gone or changed: nic b"},
		"leaked file":     {State{Lines: []string{"nic a", "nic b", "file x"}, Namespaces: 1}, "new: file x"},
		"held namespaces": {State{Lines: []string{"nic a", "nic b"}, Namespaces: 2}, "the agent holds 2 network namespaces, 1 before"},
	} {
		if got := strings.Join(Compare(before, tt.now), "\n"); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestParseSample(t *testing.T) {
	s, err := parseSample("up\n" +
		"process uid container 77 -,../../devices/pci0000:36/0000:36:00.0/0000:37:00.0\n" +
		"process uid sandbox 76 -\nprocess other container 78 -,port3\n")
	if err != nil {
		t.Fatal(err)
	}
	want := Sample{Up: true, Processes: []Process{
		{Pod: "uid", PID: 77, NICs: []string{"0000:37:00.0"}},
		{Pod: "uid", Sandbox: true, PID: 76},
		{Pod: "other", PID: 78, NICs: []string{"port3"}},
	}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{"process uid container", "time 12.50", "sh: not found"} {
		if _, err := parseSample(line); err == nil {
			t.Errorf("%q was accepted", line)
		}
	}
}

// see feeds samples of one pod: one after the other, up or not, running with a NIC,
// without, or not at all.
func see(w *Watcher, story string) {
	for word := range strings.FieldsSeq(story) {
		s := Sample{Up: strings.Contains(word, "u")}
		process := Process{Pod: "uid", PID: 1}
		switch {
		case strings.Contains(word, "n"):
			process.NICs = []string{"nic"}
			s.Processes = []Process{process}
		case strings.Contains(word, "b"):
			s.Processes = []Process{process}
		}
		w.see(s, 0)
	}
}

// A container without its NIC is wrong whoever names the claim, and is reported once until
// it has it.
func TestWatcher(t *testing.T) {
	for name, tt := range map[string]struct {
		story   string
		excused bool
		wrong   int
	}{
		"well":                            {story: "u un un u"},
		"nothing runs":                    {story: "un - - u un"},
		"runs on while the agent is dead": {story: "un n n un"},
		"bare while the agent is dead":    {story: "un - b b un", wrong: 1},
		"bare for a moment":               {story: "un ub un", wrong: 1},
		"bare twice":                      {story: "un ub ub un ub un", wrong: 2},
		"excused":                         {story: "un ub ub ub ub ub", excused: true},
	} {
		for _, named := range []bool{true, false} {
			w := NewWatcher()
			c := Cycle{Number: 1, Named: named}
			w.add("uid", c)
			if tt.excused {
				w.nicRemoved("uid")
			}
			see(w, tt.story)
			want := slices.Repeat([]string{c.String() + ": the container runs without its NIC"}, tt.wrong)
			if wrong := w.Wrong(); !slices.Equal(wrong, want) {
				t.Errorf("%s, named %v: %q, want %q", name, named, wrong, want)
			}
		}
	}
}

// A look begun before the agent was killed may end after: it must not count as
// the agent's return.
func TestWatcherDistrustsOldLooks(t *testing.T) {
	w := NewWatcher()
	w.add("a", Cycle{})
	serving := Sample{Up: true, Processes: []Process{{Pod: "a", PID: 7, NICs: []string{"nic0"}}}}
	w.see(serving, 0)
	if _, _, _, settled := w.place("a"); !settled {
		t.Fatal("a pod that has its NIC while the agent serves is not settled")
	}
	w.ended()
	w.see(serving, 0)
	if _, _, _, settled := w.place("a"); settled {
		t.Error("a look from before the kill settles the pod")
	}
	w.see(serving, 1)
	if _, _, _, settled := w.place("a"); !settled {
		t.Error("a look from after the kill does not settle the pod")
	}
}

func TestSummaryCountsFalseAlarms(t *testing.T) {
	plan := []Cycle{{Number: 1, Fault: AgentKilled}, {Number: 2, Fault: LinkRemoved}, {Number: 3, Fault: SandboxRecreated}, {Number: 4, Fault: LinkRenamed}}
	reports := falsepositive.Reports{AsClaimed: 3}
	for _, pod := range []string{"cycle-1", "cycle-2", "cycle-3", "cycle-4"} {
		reports.Alarms = append(reports.Alarms, falsepositive.Alarm{Pod: pod, What: "event Misaligned"})
	}
	var summary Summary
	summary.addAlarms(reports, plan)
	want := []string{"false alarm: cycle-1: event Misaligned", "false alarm: cycle-4: event Misaligned"}
	if !slices.Equal(summary.Wrong, want) || summary.AsClaimed != 3 {
		t.Errorf("%q, want %q; as claimed %d", summary.Wrong, want, summary.AsClaimed)
	}
}
