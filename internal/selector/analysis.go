// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"k8s.io/dynamic-resource-allocation/cel"
)

// Attribute is an attribute of a device as a selector reads it.
type Attribute struct{ Domain, Name string }

func (a Attribute) String() string { return a.Domain + "/" + a.Name }

// Analysis is what a selector does.
type Analysis struct {
	// Driver is the driver it wants, "" where it does not say.
	Driver string
	// Reads are all attributes that it reads, and Unguarded those that it reads
	// also of devices that lack them. Both are sorted.
	Reads, Unguarded []Attribute
}

// Analyse compiles a selector as the scheduler does, and finds what it reads.
func Analyse(expression string) (Analysis, error) {
	compiled := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true}).
		CompileCELExpression(expression, cel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return Analysis{}, errors.New(withoutPicture(compiled.Error.Detail))
	}
	parsed, issues := compiled.Environment.Parse(expression)
	if issues != nil {
		return Analysis{}, issues.Err()
	}
	w := walker{reads: map[Attribute]bool{}, unguarded: map[Attribute]bool{}, domains: map[string]string{}}
	root := parsed.NativeRep().Expr()
	w.walk(root, nil)
	a := Analysis{Reads: sorted(w.reads), Unguarded: sorted(w.unguarded)}
	for _, term := range terms(root, operators.LogicalAnd) {
		if driver, ok := wantedDriver(term); ok {
			a.Driver = driver
		}
	}
	return a, nil
}

// withoutPicture leaves out the lines in which the compiler shows the
// expression with a mark under it.
func withoutPicture(detail string) string {
	var lines []string
	for line := range strings.Lines(detail) {
		if !strings.HasPrefix(line, " |") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "; ")
}

func sorted(set map[Attribute]bool) []Attribute {
	return slices.SortedFunc(maps.Keys(set), func(a, b Attribute) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
}

// terms are the operands of a chain of one operator.
func terms(e ast.Expr, operator string) []ast.Expr {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operator {
		return []ast.Expr{e}
	}
	var all []ast.Expr
	for _, arg := range e.AsCall().Args() {
		all = append(all, terms(arg, operator)...)
	}
	return all
}

// wantedDriver reads device.driver == "name", either way round.
func wantedDriver(e ast.Expr) (string, bool) {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Equals {
		return "", false
	}
	args := e.AsCall().Args()
	for i, arg := range args {
		driver, ok := text(args[1-i])
		if ok && arg.Kind() == ast.SelectKind && arg.AsSelect().FieldName() == "driver" && isDevice(arg.AsSelect().Operand()) {
			return driver, true
		}
	}
	return "", false
}

func isDevice(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "device" }

// text is a string that stands in the expression.
func text(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().Value().(string)
	return s, ok
}
