// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package selector analyses the CEL selectors of claims and classes: which driver they
// select, which attributes they read, and which of those a device must have, or
// evaluation fails. It does not evaluate them: that is the scheduler's library's.
package selector

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/dynamic-resource-allocation/cel"
)

// Attribute is an attribute of a device as a selector reads it.
type Attribute struct{ Domain, Name string }

func (a Attribute) String() string { return a.Domain + "/" + a.Name }

// Analysis is what a selector reads.
type Analysis struct {
	// Driver is the driver that it selects, "" for none.
	Driver string
	// Equal are the attributes that it wants to be one text.
	Equal map[Attribute]string
	// Reads are all attributes that it reads, and Unguarded those that it reads
	// also of devices that lack them. Both are sorted.
	Reads, Unguarded []Attribute
	// Given are those that a device certainly has of which it is true, sorted.
	Given []Attribute
	// Type is the type of what it makes, such as string or list(int), "" where that is
	// known only of a device.
	Type string
	// MaxCost is the most that a derived attribute costs to evaluate, in the API server's
	// units; of a selector it is not estimated.
	MaxCost uint64
}

// Analyse compiles a selector as the scheduler does, and finds what it reads.
func Analyse(expression string) (Analysis, error) { return analyse(expression, false) }

// AnalyseDerived is Analyse for the expression of a derived attribute, which makes a value
// of a device: it must make one of every device that the selectors leave.
func AnalyseDerived(expression string) (Analysis, error) { return analyse(expression, true) }

func analyse(expression string, derived bool) (Analysis, error) {
	compiled := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: derived}).
		CompileCELExpression(expression, cel.Options{DisableCostEstimation: !derived, DerivedAttribute: derived})
	if compiled.Error != nil {
		return Analysis{}, errors.New(withoutCaret(compiled.Error.Detail))
	}
	parsed, issues := compiled.Environment.Parse(expression)
	if issues != nil {
		return Analysis{}, issues.Err()
	}
	w := walker{reads: map[Attribute]bool{}, unguarded: map[Attribute]bool{}, domains: map[string]string{}}
	root := parsed.NativeRep().Expr()
	w.walk(root, nil)
	a := Analysis{Equal: map[Attribute]string{}, Reads: sorted(w.reads), Unguarded: sorted(w.unguarded), Given: sorted(w.given(root, true))}
	if derived {
		a.MaxCost = compiled.MaxCost
		if t := compiled.OutputType; !t.IsExactType(types.DynType) && !t.IsExactType(types.AnyType) {
			a.Type = t.String()
		}
	}
	for _, term := range terms(root, operators.LogicalAnd) {
		if driver, ok := wantedDriver(term); ok {
			a.Driver = driver
		}
		if attribute, value, ok := w.wantedText(term); ok {
			a.Equal[attribute] = value
		}
	}
	return a, nil
}

// withoutCaret removes the lines in which the compiler shows the expression with a
// caret under it.
func withoutCaret(detail string) string {
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

// wantedText reads device.attributes["domain"].name == "text", either way round.
func (w *walker) wantedText(e ast.Expr) (Attribute, string, bool) {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Equals {
		return Attribute{}, "", false
	}
	args := e.AsCall().Args()
	for i, arg := range args {
		attribute, isRead := w.read(arg)
		if value, ok := text(args[1-i]); ok && isRead {
			return attribute, value, true
		}
	}
	return Attribute{}, "", false
}

func isDevice(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "device" }

// text is a string literal of the expression.
func text(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().Value().(string)
	return s, ok
}

// walker finds the attributes that an expression reads. A read is guarded where an "in"
// or a has() decides the expression when the attribute is absent, such as
// "rdma" in device.attributes["dra.net"] && device.attributes["dra.net"].rdma.
// The order does not matter: CEL's && and || ignore an operand that fails where the
// other one decides, on either side.
type walker struct {
	reads, unguarded map[Attribute]bool
	// domains are the variables of cel.bind that stand for
	// device.attributes["domain"].
	domains map[string]string
}

type guards map[Attribute]bool

func (g guards) and(more guards) guards {
	all := maps.Clone(g)
	if all == nil {
		all = guards{}
	}
	maps.Copy(all, more)
	return all
}

func (w *walker) walk(e ast.Expr, g guards) {
	if a, ok := w.read(e); ok {
		w.reads[a] = true
		if !g[a] {
			w.unguarded[a] = true
		}
		return
	}
	if a, ok := w.presence(e); ok {
		w.reads[a] = true
		return
	}
	switch e.Kind() {
	case ast.CallKind:
		w.call(e, g)
	case ast.SelectKind:
		w.walk(e.AsSelect().Operand(), g)
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			w.walk(element, g)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		if domain, ok := w.domain(c.AccuInit()); ok {
			w.domains[c.AccuVar()] = domain
		}
		for _, part := range []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
			w.walk(part, g)
		}
	}
}

func (w *walker) call(e ast.Expr, g guards) {
	c := e.AsCall()
	switch c.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		holds := c.FunctionName() == operators.LogicalAnd
		for _, term := range terms(e, c.FunctionName()) {
			g = g.and(w.given(term, holds))
		}
		for _, term := range terms(e, c.FunctionName()) {
			w.walk(term, g)
		}
		return
	case operators.Conditional:
		condition := c.Args()[0]
		w.walk(condition, g)
		w.walk(c.Args()[1], g.and(w.given(condition, true)))
		w.walk(c.Args()[2], g.and(w.given(condition, false)))
		return
	}
	if c.IsMemberFunction() {
		w.walk(c.Target(), g)
	}
	for _, arg := range c.Args() {
		w.walk(arg, g)
	}
}

// given are the attributes that a device certainly has when the expression is true, or
// false (holds).
func (w *walker) given(e ast.Expr, holds bool) guards {
	if a, ok := w.presence(e); ok && holds {
		return guards{a: true}
	}
	if e.Kind() != ast.CallKind {
		return nil
	}
	switch c := e.AsCall(); {
	case c.FunctionName() == operators.LogicalNot:
		return w.given(c.Args()[0], !holds)
	case c.FunctionName() == operators.LogicalAnd && holds, c.FunctionName() == operators.LogicalOr && !holds:
		var g guards
		for _, arg := range c.Args() {
			g = g.and(w.given(arg, holds))
		}
		return g
	}
	return nil
}

// presence reads "name" in device.attributes["domain"], and
// has(device.attributes["domain"].name).
func (w *walker) presence(e ast.Expr) (Attribute, bool) {
	switch e.Kind() {
	case ast.SelectKind:
		s := e.AsSelect()
		domain, ok := w.domain(s.Operand())
		return Attribute{domain, s.FieldName()}, ok && s.IsTestOnly()
	case ast.CallKind:
		c := e.AsCall()
		// The optional forms (.?name and [?"name"]) do not fail either.
		switch c.FunctionName() {
		case operators.In:
			return w.named(c.Args()[1], c.Args()[0])
		case operators.OptSelect, operators.OptIndex:
			return w.named(c.Args()[0], c.Args()[1])
		}
	}
	return Attribute{}, false
}

// read reads device.attributes["domain"].name, and ["name"].
func (w *walker) read(e ast.Expr) (Attribute, bool) {
	switch e.Kind() {
	case ast.SelectKind:
		s := e.AsSelect()
		domain, ok := w.domain(s.Operand())
		return Attribute{domain, s.FieldName()}, ok && !s.IsTestOnly()
	case ast.CallKind:
		if c := e.AsCall(); c.FunctionName() == operators.Index {
			return w.named(c.Args()[0], c.Args()[1])
		}
	}
	return Attribute{}, false
}

func (w *walker) named(of, name ast.Expr) (Attribute, bool) {
	domain, isDomain := w.domain(of)
	n, isText := text(name)
	return Attribute{domain, n}, isDomain && isText
}

// domain reads device.attributes["domain"], or a variable that stands for it.
func (w *walker) domain(e ast.Expr) (string, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		domain, ok := w.domains[e.AsIdent()]
		return domain, ok
	case ast.CallKind:
		c := e.AsCall()
		if c.FunctionName() != operators.Index || c.Args()[0].Kind() != ast.SelectKind {
			return "", false
		}
		of := c.Args()[0].AsSelect()
		if of.FieldName() != "attributes" || !isDevice(of.Operand()) {
			return "", false
		}
		return text(c.Args()[1])
	}
	return "", false
}
