// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package guesttest

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
)

// PackageResult is what became of one package's tests, subtests counted as well.
type PackageResult struct {
	Package                 string
	Passed, Failed, Skipped int
	// Skips are the tests that did not run, each with its reason.
	Skips []string
	// Failures name the tests that failed.
	Failures []string
	// Broken says why the binary's own end is no verdict: a panic, a
	// time-out. Empty where there is none.
	Broken string
	// Seconds is how long it took in the guest.
	Seconds float64
}

// OK says whether everything that ran passed, and something did.
func (t PackageResult) OK() bool { return t.Failed == 0 && t.Broken == "" && t.Passed > 0 }

// result is a line such as "    --- SKIP: TestX/y (0.00s)".
var result = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+)`)

// turn is a line such as "=== CONT  TestX/y": what follows is that test's.
var turn = regexp.MustCompile(`^=== [A-Z]+ +(\S+)`)

// count reads what a test binary prints with -test.v. The reason of a skip is
// the last thing the test said.
func count(name, output string, code int) PackageResult {
	t := PackageResult{Package: name}
	said, speaker := map[string]string{}, ""
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n")
		if match := turn.FindStringSubmatch(line); match != nil {
			speaker = match[1]
			continue
		}
		match := result.FindStringSubmatch(line)
		if match == nil {
			said[speaker] = strings.TrimSpace(line)
			continue
		}
		switch match[1] {
		case "PASS":
			t.Passed++
		case "FAIL":
			t.Failed++
			t.Failures = append(t.Failures, match[2])
		case "SKIP":
			t.Skipped++
			t.Skips = append(t.Skips, match[2]+": "+said[match[2]])
		}
	}
	if code != 0 && t.Failed == 0 {
		t.Broken = fmt.Sprintf("exit code %d: %s", code, lastLine(output))
	}
	return t
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return line
		}
	}
	return lines[len(lines)-1]
}

// Print writes the results as a table, and below it every skip and failure.
func Print(w io.Writer, results []PackageResult) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  \tPACKAGE\tPASSED\tFAILED\tSKIPPED\tSECONDS")
	var total PackageResult
	for _, p := range results {
		fmt.Fprintf(t, "  %s\t%s\t%d\t%d\t%d\t%.1f\n", word(p.OK()), p.Package, p.Passed, p.Failed, p.Skipped, p.Seconds)
		total.Passed, total.Failed, total.Skipped = total.Passed+p.Passed, total.Failed+p.Failed, total.Skipped+p.Skipped
		total.Seconds += p.Seconds
	}
	fmt.Fprintf(t, "  \tall\t%d\t%d\t%d\t%.1f\n", total.Passed, total.Failed, total.Skipped, total.Seconds)
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range results {
		for _, skip := range p.Skips {
			fmt.Fprintf(w, "  skipped  %s %s\n", p.Package, skip)
		}
		for _, failure := range p.Failures {
			fmt.Fprintf(w, "  FAILED   %s %s\n", p.Package, failure)
		}
		if p.Broken != "" {
			fmt.Fprintf(w, "  BROKEN   %s %s\n", p.Package, p.Broken)
		}
	}
	return nil
}

func word(ok bool) string {
	if ok {
		return "ok"
	}
	return "FAIL"
}
