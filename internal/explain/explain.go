// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package explain says why claims are not allocated: for each node the first
// request or constraint that cannot be met, the smallest set of them that
// conflicts, and what would help. Whatever it proposes has been tried.
//
// The parts: package snapshot is the state of the cluster as the scheduler sees it, compile says
// which device fits which request and makes a problem of it, solver solves that, mus
// finds a minimal unsatisfiable subset where it has no solution, reason says why, and
// fixes what to do. Here they are put together into a report. Nothing here reads a
// cluster or a file.
package explain

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/fixes"
	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// maxExplained is how many groups of nodes get a cause and fixes of their own.
const maxExplained = 20

// searchBudget is how many devices the scheduler may try on a node before the report
// warns: it takes about 2 µs for each, and gives up after 10 s (kube-scheduler's
// filter time-out).
const searchBudget = 200_000

// maxDetailed is on how many nodes answers are kept with their details.
const maxDetailed = 500

// Explain answers for a subject, on every node of a cluster. An error is the
// context's; whatever is odd about the objects is in the report.
func Explain(ctx context.Context, c *snapshot.Cluster, s Subject) (*Report, error) {
	r := &Report{
		Subject: s.String(), Source: c.Source, Kubernetes: fmt.Sprintf("1.%d", c.Minor),
		Findings: s.Findings, Notes: slices.Clone(s.Notes),
	}
	r.allocated(s.Allocated)
	if len(s.Claims) == 0 && len(s.extended) == 0 {
		r.Verdict = Allocated
		if s.incomplete() {
			r.Verdict = FitsNot
		}
		return r, ctx.Err()
	}
	r.Findings = append(r.Findings, findings(c, s.Claims)...)
	e := explainer{ctx: ctx, cluster: c, subject: s, selectors: compile.NewSelectors()}
	answers, err := e.evaluate()
	if err != nil {
		return nil, err
	}
	r.Nodes = len(answers)
	e.group(answers)
	if r.Groups, err = e.report(); err != nil {
		return nil, err
	}
	r.Verdict = e.verdict(s)
	r.Notes = append(r.Notes, s.pluginNotes(c)...)
	if len(answers) == 0 {
		r.Notes = append(r.Notes, "there is no node, nor a ResourceSlice: nothing can be allocated")
	}
	return r, ctx.Err()
}

type explainer struct {
	ctx       context.Context
	cluster   *snapshot.Cluster
	subject   Subject
	selectors *compile.Selectors
	groups    []*nodeGroup
}

// nodeAnswer is a node with its answer, or why it is excluded.
type nodeAnswer struct {
	name string
	// evaluator asks about the claims that are to be allocated on the node.
	evaluator *reason.Evaluator
	excluded  string
	err       error
	answer    *reason.Answer
	// code distinguishes causes where the same members conflict.
	code string
}

// nodeGroup is nodes that have the same answer.
type nodeGroup struct {
	key   string
	nodes []string
	first *nodeAnswer
}

// evaluate evaluates all nodes, several at a time.
func (e *explainer) evaluate() ([]*nodeAnswer, error) {
	names := e.cluster.NodeNames()
	// Of a group only the first answer is needed again: with thousands of nodes the
	// details of the others are not worth their memory.
	slim := len(names) > maxDetailed
	answers := make([]*nodeAnswer, len(names))
	evaluators := e.evaluators(names)
	work, ctx := errgroup.WithContext(e.ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		work.Go(func() error {
			node := e.cluster.Node(name)
			a := &nodeAnswer{name: name, evaluator: evaluators[i], excluded: e.subject.whyExcluded(e.cluster, node)}
			if a.excluded == "" {
				a.answer, a.err = a.evaluator.Evaluate(ctx, node)
				if a.answer != nil && a.answer.Verdict == solver.FitsNot {
					a.code = a.answer.FreeDeviceCause().Code
				}
				if a.answer != nil && slim {
					a.answer = a.answer.WithoutDetails()
				}
			}
			answers[i] = a
			return ctx.Err()
		})
	}
	return answers, work.Wait()
}

// evaluators are those of nodes: one for all of them, unless nodes differ in the
// claims that are to be allocated.
func (e *explainer) evaluators(names []string) []*reason.Evaluator {
	compiler := compile.New(e.cluster, e.selectors)
	known := map[string]*reason.Evaluator{}
	all := make([]*reason.Evaluator, len(names))
	for i, name := range names {
		claims := e.subject.ClaimsOn(e.cluster, e.cluster.Node(name))
		key := fmt.Sprint(len(claims))
		if len(claims) > 0 {
			for _, r := range claims[len(claims)-1].Spec.Devices.Requests {
				key += " " + r.Name
			}
		}
		if known[key] == nil {
			known[key] = reason.NewEvaluator(compiler, claims)
		}
		all[i] = known[key]
	}
	return all
}

// group groups the nodes that have the same answer.
func (e *explainer) group(answers []*nodeAnswer) {
	byKey := map[string]*nodeGroup{}
	for _, a := range answers {
		key := a.key()
		g := byKey[key]
		if g == nil {
			g = &nodeGroup{key: key, first: a}
			byKey[key] = g
			e.groups = append(e.groups, g)
		}
		g.nodes = append(g.nodes, a.name)
	}
	slices.SortStableFunc(e.groups, func(x, y *nodeGroup) int {
		if x.rank() != y.rank() {
			return x.rank() - y.rank()
		}
		return len(y.nodes) - len(x.nodes)
	})
}

// rank sorts groups: where the claims fit first, excluded nodes last.
func (g *nodeGroup) rank() int {
	switch {
	case g.first.excluded != "":
		return 4
	case g.first.err != nil:
		return 3
	}
	return int(g.first.answer.Verdict)
}

func (a *nodeAnswer) key() string {
	switch {
	case a.excluded != "":
		return "excluded " + a.excluded
	case a.err != nil:
		return "error " + a.err.Error()
	case a.answer.Verdict == solver.Unknown:
		return "unknown " + strings.Join(a.answer.Unsupported, ";")
	}
	key := fmt.Sprintf("%p %v %v %v", a.evaluator, a.answer.Verdict, a.answer.First, a.answer.Conflict)
	if c := a.answer.Culprit; c != nil {
		key += fmt.Sprint(c.Member, c.Alternative)
	}
	return key + a.code
}

// verdict is that of the whole.
func (e *explainer) verdict(s Subject) string {
	verdict := FitsNot
	for _, g := range e.groups {
		if g.first.answer == nil {
			continue
		}
		switch g.first.answer.Verdict {
		case solver.Aborts:
			// The allocator stops at the first error, whatever other nodes have.
			return Aborts
		case solver.Fits:
			verdict = Fits
		case solver.Unknown:
			if verdict == FitsNot {
				verdict = Unknown
			}
		}
	}
	if s.incomplete() {
		return FitsNot
	}
	return verdict
}

// fitting lists the nodes on which the claims fit.
func (e *explainer) fitting() []string {
	for _, g := range e.groups {
		if g.first.answer != nil && g.first.answer.Verdict == solver.Fits {
			return g.nodes
		}
	}
	return nil
}

func (e *explainer) report() ([]Group, error) {
	var all []Group
	fitting := e.fitting()
	for i, g := range e.groups {
		out := Group{Nodes: g.nodes}
		switch a := g.first; {
		case a.excluded != "":
			out.Verdict, out.Message = Excluded, a.excluded
		case a.err != nil:
			out.Verdict, out.Cause, out.Message = Unknown, reason.NotJudged, a.err.Error()
		case a.answer.Verdict == solver.Fits:
			a, err := e.detailed(a)
			if err != nil {
				return nil, err
			}
			out.Verdict, out.Placed = Fits, placed(a)
			out.ExceedsBudget = solver.New(a.Problem).ExceedsBudget(searchBudget)
		default:
			if err := e.reportCause(&out, a, fitting, i < maxExplained); err != nil {
				return nil, err
			}
		}
		all = append(all, out)
	}
	return all, nil
}

// detailed asks again where details were left out.
func (e *explainer) detailed(a *nodeAnswer) (*reason.Answer, error) {
	if a.answer.Detailed() {
		return a.answer, nil
	}
	return a.evaluator.Evaluate(e.ctx, e.cluster.Node(a.name))
}

func (e *explainer) reportCause(out *Group, first *nodeAnswer, fitting []string, fully bool) error {
	a, err := e.detailed(first)
	if err != nil {
		return err
	}
	out.Verdict = map[solver.Verdict]string{solver.FitsNot: FitsNot, solver.Aborts: Aborts, solver.Unknown: Unknown}[a.Verdict]
	cause := first.evaluator.Cause(e.ctx, a)
	out.Cause, out.Message, out.Details = cause.Code, cause.Text, cause.Lines
	if a.First >= 0 {
		out.First = a.MemberName(a.Members[a.First])
	}
	for _, i := range a.Conflict {
		out.Conflict = append(out.Conflict, a.MemberName(a.Members[i]))
	}
	out.Smallest = a.Smallest
	if a.Verdict == solver.Unknown || !fully {
		return nil
	}
	out.ExceedsBudget = solver.New(a.Problem).ExceedsBudget(searchBudget)
	if len(fitting) > 0 && a.Verdict == solver.FitsNot {
		out.Fixes = append(out.Fixes, fixes.Fix{
			Kind: fixes.AnotherNode, Text: "use node " + fitting[0] + moreThan(len(fitting)) + ": it fits there",
			Trials: []fixes.Trial{{Cluster: e.cluster, Node: fitting[0], Claims: e.subject.ClaimsOn(e.cluster, e.cluster.Node(fitting[0]))}},
		})
	}
	elsewhere := slices.DeleteFunc(e.candidates(), func(n string) bool { return n == first.name })
	out.Fixes = append(out.Fixes, fixes.Find(e.ctx, a, cause.Code, first.evaluator.Claims(), e.selectors, elsewhere)...)
	return nil
}

// candidates are a node of each group that is not out of the question, those
// where all fits first.
func (e *explainer) candidates() []string {
	var all []string
	for _, g := range e.groups {
		if g.first.answer != nil {
			all = append(all, g.nodes[0])
		}
	}
	for _, g := range e.groups {
		if g.first.answer != nil && len(g.nodes) > 1 {
			all = append(all, g.nodes[1])
		}
	}
	return all
}

func moreThan(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" or %d others", n-1)
}

func placed(a *reason.Answer) []Placed {
	var all []Placed
	for _, p := range a.Placed {
		id := a.Devices[p.Device].ID
		all = append(all, Placed{
			Claim:   a.Claims[p.Claim].Claim.Name,
			Request: a.Claims[p.Claim].Requests[p.Request].Alternatives[p.Alternative].Name,
			Driver:  id.Driver, Pool: id.Pool, Device: id.Device,
		})
	}
	return all
}

func (r *Report) allocated(claims []*resourceapi.ResourceClaim) {
	for _, c := range claims {
		for _, d := range c.Status.Allocation.Devices.Results {
			r.Allocation = append(r.Allocation, Placed{Claim: c.Name, Request: d.Request, Driver: d.Driver, Pool: d.Pool, Device: d.Device})
		}
	}
}
