// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"plumbline.dev/plumbline/docs/docstest"
)

// docs/failures.md says which test shows what: those tests and faults are there.
func TestFailuresAreShown(t *testing.T) {
	page := docstest.Page(t, "failures.md")
	root := filepath.Join("..", "..")
	var tests strings.Builder
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test[A-Z]\\w+)`").FindAllStringSubmatch(page, -1)
	if len(named) < 20 {
		t.Fatalf("%d tests named", len(named))
	}
	for _, n := range named {
		if !strings.Contains(tests.String(), "func "+n[1]+"(") {
			t.Errorf("no test %s", n[1])
		}
	}
	faults, err := os.ReadFile(filepath.Join(root, "lab", "scenario", "cycles", "plan.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range regexp.MustCompile("soak: `([^`]+)`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(string(faults), `= "`+n[1]+`"`) {
			t.Errorf("make soak has no fault %q", n[1])
		}
	}
}
