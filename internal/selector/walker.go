// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"maps"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// walker finds the attributes that an expression reads. A read is guarded where
// an "in" or a has() beside it must hold, or where one that must not hold lets
// the expression end before: CEL's && and || take no offence at an operand that
// fails when the other one decides, on either side.
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

// given are the attributes that are there when an expression is true, or false.
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
