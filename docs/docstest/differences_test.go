// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package docstest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"plumbline.dev/plumbline/docs/docstest"
)

const differences = "differences.md"

var (
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	namedTest    = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
)

// tests are the names of all test functions, of both modules.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunction.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A test that a page of docs names is there.
func TestEveryNamedTestExists(t *testing.T) {
	known := tests(t)
	for _, page := range []string{differences, "failures.md"} {
		named := namedTest.FindAllStringSubmatch(docstest.Page(t, page), -1)
		if len(named) == 0 {
			t.Errorf("%s names no test", page)
		}
		for _, m := range named {
			if !known[m[1]] {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
	}
}

// What is called absent has a test, every row an answer, and no number is left out.
func TestEveryDifferenceIsAnswered(t *testing.T) {
	answer := regexp.MustCompile(`^(absent|by choice|open|not applicable)\b`)
	sections := map[string][]string{}
	var section string
	for line := range strings.Lines(docstest.Page(t, differences)) {
		if title, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
			section = title
		}
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") || strings.Contains(line, "| plumbline |") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		sections[section] = append(sections[section], cells[0])
		here, by := cells[len(cells)-2], cells[len(cells)-1]
		switch kind := answer.FindString(here); {
		case kind == "":
			t.Errorf("%s: %q answers with %q", section, cells[0], here)
		case kind == "absent" && !namedTest.MatchString(by):
			t.Errorf("%s: %q is absent, and no test says so", section, cells[0])
		}
	}
	numbers := func(n int, others ...string) []string {
		for i := range n {
			others = append(others, strconv.Itoa(i+1))
		}
		slices.Sort(others)
		return others
	}
	for section, want := range map[string][]string{
		"DRANET: what its code shows": numbers(24), "dra-driver-cpu: what was reproduced": numbers(9, "2a", "2b"),
	} {
		if got := slices.Sorted(slices.Values(sections[section])); !slices.Equal(got, want) {
			t.Errorf("%s: rows %q, want %q", section, got, want)
		}
	}
}
