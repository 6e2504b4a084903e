// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package allocation_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/allocation"
)

// Every switch of the allocator has a gate of its own in the table, under the name
// by which the allocator itself knows it.
func TestEveryFeatureHasAGate(t *testing.T) {
	seen := map[string]string{}
	for _, name := range allocation.GateNames() {
		g, err := allocation.OverrideGates(allocation.Gates{}, allocation.NewestMinor, name+"=true")
		if err != nil {
			t.Fatal(err)
		}
		v := reflect.ValueOf(g)
		for i := range v.NumField() {
			if v.Field(i).Bool() {
				field := v.Type().Field(i).Name
				if seen[field] != "" {
					t.Errorf("%s and %s both switch %s", seen[field], name, field)
				}
				seen[field] = name
			}
		}
		own := name
		if name == allocation.GateBindingConditions {
			own += "+DRAResourceClaimDeviceStatus"
		}
		if !g.Set().Has(own) || len(g.Set()) != 1 {
			t.Errorf("%s switches what the allocator calls %v", name, g.Set())
		}
	}
	for i := range reflect.TypeFor[allocation.Gates]().NumField() {
		if field := reflect.TypeFor[allocation.Gates]().Field(i).Name; seen[field] == "" {
			t.Errorf("%s of structured.Features has no gate in the table", field)
		}
	}
}

// oldestGates is the first minor version whose gates the table of explain knows.
const oldestGates = 34

// The defaults of the scheduler's feature gates are those of the Kubernetes release
// that the lab builds, which remembers them for older ones too.
func TestGatesAreTheReleases(t *testing.T) {
	defaults := featureGates(t)
	for minor := oldestGates; minor <= allocation.NewestMinor; minor++ {
		want := allocation.Gates{}
		for _, name := range allocation.GateNames() {
			on := defaults(t, name, minor)
			if name == allocation.GateBindingConditions {
				on = on && defaults(t, "DRAResourceClaimDeviceStatus", minor)
			}
			var err error
			if want, err = allocation.OverrideGates(want, allocation.NewestMinor, fmt.Sprintf("%s=%t", name, on)); err != nil {
				t.Fatal(err)
			}
		}
		if got := allocation.DefaultGates(minor); !reflect.DeepEqual(got, want) {
			t.Errorf("1.%d: on by default are %v, its source says %v", minor, got.Set().UnsortedList(), want.Set().UnsortedList())
		}
	}
}

// featureGates reads the release's table of feature gates from its source. To build
// it would take minutes.
func featureGates(t *testing.T) func(t *testing.T, name string, minor int) bool {
	t.Helper()
	list := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", "k8s.io/kubernetes")
	list.Dir = "../../lab/build/hyperkube"
	out, err := list.Output()
	version, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || dir == "" {
		t.Skipf("the source of Kubernetes %s is not on this machine (building the lab fetches it): %v", version, err)
	}
	if want := fmt.Sprintf("v1.%d.", allocation.NewestMinor); !strings.HasPrefix(version, want) {
		t.Errorf("the lab builds Kubernetes %s, the newest that is known is %s*", version, want)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "pkg/features/kube_features.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	specs := map[string]*ast.CompositeLit{}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Names) != 1 || v.Names[0].Name != "defaultVersionedKubernetesFeatureGates" {
			return true
		}
		for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
			pair := e.(*ast.KeyValueExpr)
			if name, ok := pair.Key.(*ast.Ident); ok {
				specs[name.Name] = pair.Value.(*ast.CompositeLit)
			}
		}
		return false
	})
	return func(t *testing.T, name string, minor int) bool {
		t.Helper()
		if specs[name] == nil {
			t.Fatalf("Kubernetes %s has no feature gate %s", version, name)
		}
		on := false
		for _, e := range specs[name].Elts {
			since, value := versionAndDefault(t, e.(*ast.CompositeLit))
			if since <= minor {
				on = value
			}
		}
		return on
	}
}

// versionAndDefault reads {Version: version.MustParse("1.37"), Default: true, …}.
func versionAndDefault(t *testing.T, spec *ast.CompositeLit) (minor int, on bool) {
	t.Helper()
	minor = -1
	for _, e := range spec.Elts {
		pair := e.(*ast.KeyValueExpr)
		switch pair.Key.(*ast.Ident).Name {
		case "Version":
			text, err := strconv.Unquote(pair.Value.(*ast.CallExpr).Args[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if minor, err = strconv.Atoi(strings.TrimPrefix(text, "1.")); err != nil {
				t.Fatal(err)
			}
		case "Default":
			on = pair.Value.(*ast.Ident).Name == "true"
		}
	}
	if minor < 0 {
		t.Fatal("a feature gate without a version")
	}
	return minor, on
}
