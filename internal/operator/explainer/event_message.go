// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/fixes"
	"plumbline.dev/plumbline/internal/printable"
)

const (
	// maxNote is how much an event may say, in bytes (events.k8s.io, note).
	maxNote = 1024
	// maxMessage is how much is said of one kind of node, so that what helps has
	// its place.
	maxMessage = 500
	// maxGroups is of how many kinds of nodes something is said.
	maxGroups = 3
)

// eventMessage is what an event says of a report; empty where there is nothing to say,
// because the claims fit somewhere, or nobody knows, or it is not for their sake
// that the pod waits.
func eventMessage(r *explain.Report, p *corev1.Pod, claims []*resourceapi.ResourceClaim) string {
	if r.Verdict != explain.FitsNot && r.Verdict != explain.Aborts {
		return ""
	}
	var sentences []string
	for _, f := range r.Findings {
		if f.Cause != explain.ExtendedResource {
			sentences = append(sentences, cut(printable.Text(f.Field+": "+f.Message), maxMessage))
		}
	}
	var blamed, excluded []explain.Group
	for _, g := range r.Groups {
		switch g.Verdict {
		case explain.FitsNot, explain.Aborts:
			blamed = append(blamed, g)
		case explain.Excluded:
			excluded = append(excluded, g)
		}
	}
	if len(sentences) == 0 && len(blamed) == 0 {
		return ""
	}
	for i := range min(len(blamed), maxGroups) {
		sentences = append(sentences, sentence(&blamed[i], p.Namespace, claims))
	}
	for i := range min(len(excluded), maxGroups) {
		sentences = append(sentences, sentence(&excluded[i], p.Namespace, claims))
	}
	return compose(headline(r), sentences, fmt.Sprintf("More: plumbline explain pod/%s -n %s", p.Name, p.Namespace))
}

func headline(r *explain.Report) string {
	switch {
	case r.Verdict == explain.Aborts:
		return "The claims stop the scheduler with an error"
	case len(r.Groups) == 0:
		return "The claims cannot be allocated"
	case r.Nodes == 1:
		return "The claims cannot be allocated on the cluster's only node"
	}
	return fmt.Sprintf("The claims cannot be allocated on any of %d nodes", r.Nodes)
}

// sentence is what is said of nodes of one kind.
func sentence(g *explain.Group, namespace string, claims []*resourceapi.ResourceClaim) string {
	names := g.Nodes[0]
	if len(g.Nodes) > 1 {
		names += fmt.Sprintf(" and %d more", len(g.Nodes)-1)
	}
	text := cut(printable.Text(names+": "+g.Message), maxMessage)
	if help := help(g, namespace, claims); help != "" {
		text = ended(text) + " What helps: " + cut(printable.Text(help), maxMessage)
	}
	return text
}

// help is the first change that helps. Whoever reads the pod's events may not
// know of other namespaces: what is held there is not named.
func help(g *explain.Group, namespace string, claims []*resourceapi.ResourceClaim) string {
	elsewhere := false
	for _, fix := range g.Fixes {
		if !foreign(&fix, namespace, claims) {
			return fix.Text
		}
		elsewhere = true
	}
	if elsewhere {
		return "free devices that are held in other namespaces"
	}
	return ""
}

// foreign says whether a change frees a claim of another namespace: one that its
// trial does without.
func foreign(fix *fixes.Fix, namespace string, claims []*resourceapi.ResourceClaim) bool {
	if fix.Kind != fixes.Free {
		return false
	}
	for _, t := range fix.Trials {
		left := make(map[*resourceapi.ResourceClaim]bool, len(t.Cluster.Claims))
		for _, c := range t.Cluster.Claims {
			left[c] = true
		}
		if slices.ContainsFunc(claims, func(c *resourceapi.ResourceClaim) bool { return c.Namespace != namespace && !left[c] }) {
			return true
		}
	}
	return false
}

// compose joins sentences as far as there is room.
func compose(first string, sentences []string, last string) string {
	text := ended(first)
	for i, s := range sentences {
		room := maxNote - len(text) - len(last) - len("  .")
		if i > 0 && len(s) > room {
			break
		}
		text += " " + ended(cut(s, room))
	}
	if len(text)+1+len(last) <= maxNote {
		text += " " + last
	}
	return text
}

// ended ends a sentence that does not end by itself.
func ended(s string) string {
	if strings.HasSuffix(s, "?") || strings.HasSuffix(s, ellipsis) {
		return s
	}
	return s + "."
}

const ellipsis = "…"

// cut shortens a text to some bytes, between two characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := max(limit-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
