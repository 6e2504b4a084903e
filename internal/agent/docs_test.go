// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"plumbline.dev/plumbline/docs/docstest"
)

// What docs/failures.md calls a fault of the soak is one.
func TestFaultsAreSoaked(t *testing.T) {
	faults, err := os.ReadFile(filepath.Join("..", "..", "lab", "scenario", "soak", "plan.go"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("soak: `([^`]+)`").FindAllStringSubmatch(docstest.Page(t, "failures.md"), -1)
	if len(named) == 0 {
		t.Fatal("no fault is named")
	}
	for _, n := range named {
		if !strings.Contains(string(faults), `= "`+n[1]+`"`) {
			t.Errorf("make soak has no fault %q", n[1])
		}
	}
}
