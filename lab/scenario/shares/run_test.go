// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What docs/shared-nics.md has readers apply is what runs here, or in package egx, and
// nothing else.
func TestDocumentedManifests(t *testing.T) {
	page, err := os.ReadFile("../../../docs/shared-nics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllSubmatch(page, -1) {
		documented = append(documented, objects(string(block[1]))...)
	}
	here := objects(policy + "---\n" + manifests)
	for _, object := range here {
		if !slices.Contains(documented, object) {
			t.Errorf("docs/shared-nics.md lacks\n%s", object)
		}
	}
	files, err := filepath.Glob("../../../examples/network-operator-egx/manifests/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var article []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, object, _ := strings.Cut(string(text), "apiVersion:")
		article = append(article, objects("apiVersion:"+object)...)
	}
	for _, object := range documented {
		if !slices.Contains(here, object) && !slices.Contains(article, object) {
			t.Errorf("docs/shared-nics.md has an object that no scenario applies:\n%s", object)
		}
	}
	if !strings.Contains(policy, "name: "+policyName) || strings.Count(policy, documentedNIC) != 1 {
		t.Errorf("policy.yaml: want name %s, and %s once", policyName, documentedNIC)
	}
}

// objects are those of a text of YAML.
func objects(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, "---\n") {
		list = append(list, strings.TrimSpace(part))
	}
	return list
}
