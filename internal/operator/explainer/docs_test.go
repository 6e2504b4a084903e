// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/golden"
)

// TestDocumentedEvent: what the documentation says a pod is told, it is told.
func TestDocumentedEvent(t *testing.T) {
	const page = "explain.md"
	s := snapshot.Objects{Minor: allocation.NewestMinor, Gates: allocation.DefaultGates(allocation.NewestMinor), Classes: explaintest.ShippedClasses(t)}
	s.Slices = explaintest.Machine(t, "a3-ultragpu-8g", "a3-ultragpu-8g")
	for document := range strings.SplitSeq(docstest.Get(t, page, "manifest", "held").Text, "\n---\n") {
		var c resourceapi.ResourceClaim
		if err := yaml.UnmarshalStrict([]byte(document), &c); err != nil {
			t.Fatal(err)
		}
		c.Namespace = "default"
		s.Claims = append(s.Claims, &c)
	}
	pod := waiting("trainer-0", "aligned")
	r := &pass{known: snapshot.New(s), answers: map[string]*explain.Report{}}
	report, err := r.explain(t.Context(), r.subject(pod))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(eventMessage(report, pod, s.Claims), ". ", ".\n") + "\n"
	if golden.Update() {
		docstest.Rewrite(t, page, "output", "event", got)
	}
	if diff := cmp.Diff(docstest.Get(t, page, "output", "event").Text, got); diff != "" {
		t.Errorf("%s, output event (-is +told), -update rewrites it:\n%s", page, diff)
	}
}
