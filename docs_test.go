// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plumbline

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

// What documents name: a path of this repository, a Go file, a test, and an exported
// identifier with its package, such as driver.Driver. The last is looked for in the
// packages of that name.
var (
	codeSpan   = regexp.MustCompile("`[^`\n]+`")
	word       = regexp.MustCompile(`[\w./{},()-]+`)
	namedPath  = regexp.MustCompile(`^(api|cmd|deploy|docs|examples|hack|internal|lab|machines)(/[\w.{},-]+)+/?$`)
	namedFile  = regexp.MustCompile(`^[a-z][a-z0-9_]*\.go$`)
	namedTest  = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*$`)
	identifier = regexp.MustCompile(`^([a-z][a-z0-9]*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?(?:\(\))?$`)
)

// declared are the names that the code of this repository has.
type declared struct {
	files, dirs, packages, functions map[string]bool
	// exported are identifiers, methods among them, with the names of their packages.
	exported map[string]bool
}

// TestDocsNameWhatThereIs holds the names in documents against the code. Decisions and
// the change log are history: they name what there was. docs/mission.md quotes documents of
// others.
func TestDocsNameWhatThereIs(t *testing.T) {
	code := declarations(t)
	for file := range strings.Lines(git(t, "ls-files", "--cached", "--others", "--exclude-standard", "*.md")) {
		file = strings.TrimSpace(file)
		if strings.HasPrefix(file, "docs/decisions/") || file == "CHANGELOG.md" || file == "docs/mission.md" || strings.Contains(file, "testdata/") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		drawing := false
		for number, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "```") {
				// A fence without a language is a drawing: its words are names too.
				drawing = line == "```" && !drawing
				continue
			}
			spans := codeSpan.FindAllString(line, -1)
			if drawing {
				spans = []string{line}
			}
			for _, name := range word.FindAllString(strings.Join(spans, " "), -1) {
				if wrong := code.lacks(name); wrong != "" {
					t.Errorf("%s:%d names %s: %s", file, number+1, name, wrong)
				}
			}
		}
	}
}

func TestNamesThatAreNotThere(t *testing.T) {
	code := declarations(t)
	for name, missing := range map[string]bool{
		"internal/driver": false, "internal/nowhere": true, "examples/{README.md,nowhere}": true, "driver.go": false, "nowhere.go": true,
		"TestNamesThatAreNotThere": false, "TestNothing": true, "driver.Planner": false, "driver.Planner.Plan": false, "driver.Attach": false,
		"driver.Adjust": true, "driver.Planner.Apply": true, "yaml.Marshal": false, "resource.kubernetes.io": false, "make": false,
	} {
		if wrong := code.lacks(name); (wrong != "") != missing {
			t.Errorf("%s: %q, want it missing: %t", name, wrong, missing)
		}
	}
}

// lacks says what is wrong with a name in a document, "" where nothing is, or where
// it is none of the code's.
func (d *declared) lacks(name string) string {
	switch m := identifier.FindStringSubmatch(name); {
	case namedPath.MatchString(name):
		for _, p := range alternatives(strings.TrimSuffix(strings.TrimSuffix(name, "..."), "/")) {
			if !d.files[p] && !d.dirs[p] {
				return "there is no " + p
			}
		}
	case namedFile.MatchString(name) && !d.files[name]:
		return "there is no file of that name"
	case namedTest.MatchString(name) && !d.functions[name]:
		return "there is no test of that name"
	case m != nil && d.packages[m[1]] && !d.exported[m[1]+"."+m[2]]:
		return "package " + m[1] + " exports no " + m[2]
	case m != nil && d.packages[m[1]] && m[3] != "" && !d.exported[m[1]+"."+m[3]]:
		return "package " + m[1] + " has no method " + m[3]
	}
	return ""
}

// alternatives are the paths that one with {braces,of a shell} stands for.
func alternatives(p string) []string {
	before, rest, found := strings.Cut(p, "{")
	inside, after, closed := strings.Cut(rest, "}")
	if !found || !closed {
		return []string{p}
	}
	var all []string
	for part := range strings.SplitSeq(inside, ",") {
		all = append(all, before+part+after)
	}
	return all
}

// declarations reads all Go files of the repository, those of the lab among them.
func declarations(t *testing.T) *declared {
	t.Helper()
	d := &declared{
		files: map[string]bool{}, dirs: map[string]bool{}, packages: map[string]bool{}, functions: map[string]bool{}, exported: map[string]bool{},
	}
	for file := range strings.Lines(git(t, "ls-files", "--cached", "--others", "--exclude-standard")) {
		file = strings.TrimSpace(file)
		if _, err := os.Stat(file); err != nil {
			continue // removed, not committed yet
		}
		d.files[file], d.files[path.Base(file)] = true, true
		for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
			d.dirs[dir] = true
		}
		if path.Ext(file) != ".go" || strings.Contains(file, "testdata/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		d.add(parsed)
	}
	return d
}

func (d *declared) add(f *ast.File) {
	d.packages[f.Name.Name] = true
	ast.Inspect(f, func(n ast.Node) bool {
		var names []*ast.Ident
		switch x := n.(type) {
		case *ast.FuncDecl:
			d.functions[x.Name.Name] = true
			names = append(names, x.Name)
		case *ast.TypeSpec:
			names = append(names, x.Name)
		case *ast.ValueSpec:
			names = x.Names
		case *ast.Field: // of structs, and the methods of interfaces
			names = x.Names
		}
		for _, name := range names {
			if name.IsExported() {
				d.exported[f.Name.Name+"."+name.Name] = true
			}
		}
		return true
	})
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}
