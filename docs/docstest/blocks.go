// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package docstest reads the examples of the documentation, so that tests can
// apply what users copy. Only tests import it; what an example means is theirs
// to know.
package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Block is a fenced block under a comment that names it:
//
//	<!-- example: vrf -->
type Block struct {
	// Kind says what it is: "example" (parameters of the page's driver), "manifest"
	// (objects for kubectl) or "output" (what a command prints).
	Kind string
	// Name is its own among those of its kind on the page.
	Name string
	// Marks are further words: "refused" (this version refuses it),
	// "needs-rdma", "needs-hardware" and "needs-provider" (what the example
	// cannot do without), "class" (a DeviceClass may say it, and no claim), "warned" (a
	// linter says what it takes), and "partial" (an object without what matters elsewhere).
	Marks []string
	Text  string
}

// block is the comment, the fence, and what is in it.
var block = regexp.MustCompile("(?ms)^<!-- (example|manifest|output): ([^>]+) -->\n```[a-z]*\n(.*?)^```$")

// Page is the text of a page of docs, such as network.md.
func Page(t testing.TB, page string) string {
	t.Helper()
	text, err := os.ReadFile(path(t, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Blocks are the named blocks of a page, in their order.
func Blocks(t testing.TB, page string) []Block {
	t.Helper()
	var all []Block
	for _, m := range block.FindAllStringSubmatch(Page(t, page), -1) {
		words := strings.Fields(m[2])
		all = append(all, Block{Kind: m[1], Name: words[0], Marks: words[1:], Text: m[3]})
	}
	return all
}

// Examples are the examples of a page, all of them parameters of its driver as
// YAML.
func Examples(t testing.TB, page string) []Block {
	t.Helper()
	var examples []Block
	for _, b := range Blocks(t, page) {
		if b.Kind == "example" {
			examples = append(examples, b)
		}
	}
	return examples
}

// Get is one block.
func Get(t testing.TB, page, kind, name string) Block {
	t.Helper()
	for _, b := range Blocks(t, page) {
		if b.Kind == kind && b.Name == name {
			return b
		}
	}
	t.Fatalf("%s has no block %q", page, "<!-- "+kind+": "+name+" -->")
	return Block{}
}

// Rewrite replaces the text of a block, for tests run with -update.
func Rewrite(t testing.TB, page, kind, name, text string) {
	t.Helper()
	old := Page(t, page)
	at := block.FindAllStringSubmatchIndex(old, -1)
	for _, m := range at {
		if old[m[2]:m[3]] != kind || strings.Fields(old[m[4]:m[5]])[0] != name {
			continue
		}
		if err := os.WriteFile(path(t, page), []byte(old[:m[6]]+text+old[m[7]:]), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%s has no block %q", page, "<!-- "+kind+": "+name+" -->")
}

// Pages are the names of all pages of docs.
func Pages(t testing.TB) []string {
	t.Helper()
	found, err := filepath.Glob(path(t, "*.md"))
	if err != nil || len(found) == 0 {
		t.Fatalf("pages of docs: %v, error %v", found, err)
	}
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	return found
}

// path finds docs from any package of both modules.
func path(t testing.TB, page string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "docs", "docstest")); err == nil {
			return filepath.Join(dir, "docs", page)
		}
	}
	t.Fatal("the checkout's root is not above the working directory")
	return ""
}
