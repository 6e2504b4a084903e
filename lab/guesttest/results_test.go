// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package guesttest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCount(t *testing.T) {
	const output = `=== RUN   TestA
=== RUN   TestA/one
    a_test.go:3: some words
=== RUN   TestA/two
    a_test.go:9: this kernel makes no links of kind vrf
=== RUN   TestA/three
=== PAUSE TestA/three
=== RUN   TestA/four
=== CONT  TestA/three
    a_test.go:12: others' words
=== NAME  TestA/two
    a_test.go:10: after all
=== CONT  TestA/four
--- FAIL: TestA (0.10s)
    --- FAIL: TestA/one (0.00s)
    --- SKIP: TestA/two (0.00s)
    --- PASS: TestA/three (0.00s)
    --- SKIP: TestA/four (0.00s)
=== RUN   TestB
    b_test.go:4: needs "a" thing
--- SKIP: TestB (0.00s)
=== RUN   TestC
--- PASS: TestC (0.00s)
FAIL
`
	want := PackageResult{
		Package: "p", Passed: 2, Failed: 2, Skipped: 3, Failures: []string{"TestA", "TestA/one"},
		Skips: []string{
			"TestA/two: a_test.go:10: after all",
			"TestA/four: ",
			`TestB: b_test.go:4: needs "a" thing`,
		},
	}
	if diff := cmp.Diff(want, count("p", output, 1)); diff != "" {
		t.Error(diff)
	}
}

func TestCountBroken(t *testing.T) {
	for output, want := range map[string]string{
		"=== RUN   TestA\npanic: no\n\ngoroutine 1\n": "exit code 2: panic: no",
		"not found": "exit code 2: not found",
	} {
		if result := count("p", output, 2); result.OK() || result.Broken != want {
			t.Errorf("%q: %+v", output, result)
		}
	}
	if count("p", "PASS\n", 0).OK() {
		t.Error("a package of which no test ran is called OK")
	}
}

func TestPrintNamesWhatDidNotRun(t *testing.T) {
	var out strings.Builder
	err := Print(&out, []PackageResult{{Package: "a", Passed: 2, Skipped: 1, Skips: []string{"TestX: why"}}, {Package: "b", Broken: "panic: no"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ok    a        2", "FAIL  b", "skipped  a TestX: why", "BROKEN   b panic: no"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestQuote(t *testing.T) {
	if got, want := quote([]string{"a b", "it's"}), `'a b' 'it'\''s'`; got != want {
		t.Errorf("quote = %s, want %s", got, want)
	}
}
