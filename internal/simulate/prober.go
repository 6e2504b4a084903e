// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"fmt"

	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/explain/solver"
)

// Trial is the result of one pod on a node.
type Trial struct {
	Fits bool
	// Why and Details say why its claims get no devices.
	Why     string
	Details []string
}

// Prober tries one pod after the other on a node, and none of them stays there. It is not for use by several goroutines.
type Prober struct {
	*filler
	now       *snapshot.Cluster
	selectors *compile.Selectors
}

// NewProber tries pods on a node as it is.
func NewProber(g NodeGroup, o Options) *Prober {
	f := newFiller(g, explain.Subject{}, o)
	return &Prober{filler: f, now: f.cluster(), selectors: compile.NewSelectors()}
}

// Try looks for devices for the claims of a pod.
func (p *Prober) Try(ctx context.Context, subject explain.Subject) (Trial, error) {
	p.subject = subject
	claims, why, err := p.next(ctx)
	if err != nil {
		return Trial{}, err
	}
	return Trial{Fits: claims != nil, Why: why.message, Details: why.details}, nil
}

// Fits is Try without the reasons, for who asks about many pods.
func (p *Prober) Fits(ctx context.Context, subject explain.Subject) (bool, error) {
	n, err := compile.New(p.now, p.selectors).Compile(ctx, p.now.Node(p.group.Node.Name), subject.ClaimsOn(p.now, p.group.Node))
	if err != nil {
		return false, fmt.Errorf("node %s: %w", p.group.Node.Name, err)
	}
	if len(n.Unsupported) == 0 {
		if s := solver.New(n.Problem); s.Solve(s.All()).Verdict != solver.Fits {
			return false, nil
		}
	}
	trial, err := p.Try(ctx, subject)
	return trial.Fits, err
}
