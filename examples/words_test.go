// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package examples_test keeps the mission's manifests as they were written,
// and the lab's overlays from changing more than they say.
package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// documents are the folders whose manifests are a document's own text.
var documents = []string{
	"gke-device-alignment", "distributed-training-numa", "mpi-operator-gpudirect", "tpu-v6e-multi-nic",
}

// TestManifestsAreTheDocumentsWords compares every manifest with what was
// taken from its document, line by line and without indentation, which some
// documents lost on their way.
func TestManifestsAreTheDocumentsWords(t *testing.T) {
	for _, document := range documents {
		words := readDocument(t, filepath.Join("testdata", document+".txt"))
		for file, want := range words {
			t.Run(document+"/"+file, func(t *testing.T) {
				text, err := os.ReadFile(filepath.Join(document, "manifests", file))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, trimmedLines(string(text))); diff != "" {
					t.Errorf("differs from the document (-document +manifest):\n%s", diff)
				}
			})
		}
		for _, file := range manifests(t, document) {
			if _, known := words[file]; !known {
				t.Errorf("%s: manifest %s is not in the document", document, file)
			}
		}
	}
}

// manifests lists a folder's manifests but for the kustomization.
func manifests(t *testing.T, document string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(document, "manifests", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, path := range paths {
		if file := filepath.Base(path); file != "kustomization.yaml" {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		t.Fatalf("%s: no manifests", document)
	}
	return files
}

// readDocument reads one testdata file: lines by the manifest they belong to.
func readDocument(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	words := map[string][]string{}
	var file string
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		name, heads := strings.CutPrefix(line, "== ")
		switch {
		case heads:
			file = name
		case file != "":
			words[file] = append(words[file], line)
		}
	}
	if len(words) == 0 {
		t.Fatalf("%s: no manifests", path)
	}
	return words
}

// trimmedLines drops indentation and empty lines.
func trimmedLines(text string) []string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
