// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"os"
	"strings"
	"testing"
)

// What docs/shared-nics.md has readers apply is what runs here.
func TestDocumentedManifests(t *testing.T) {
	text, err := os.ReadFile("../../../docs/shared-nics.md")
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(policy+"---\n"+manifests+"---\n"+pool+"---\n"+limits, "---\n") {
		if !strings.Contains(string(text), strings.TrimSpace(part)) {
			t.Errorf("docs/shared-nics.md lacks\n%s", part)
		}
	}
	if !strings.Contains(policy, "name: "+policyName) || strings.Count(policy, documentedNIC) != 1 {
		t.Errorf("policy.yaml: want name %s, and %s once", policyName, documentedNIC)
	}
}
