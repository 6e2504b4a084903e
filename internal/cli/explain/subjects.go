// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/suggest"
)

// parseVersion reads "1.36", with or without a v and more behind it.
func parseVersion(text string) (int, error) {
	parts := strings.Split(strings.TrimPrefix(text, "v"), ".")
	if len(parts) >= 2 && parts[0] == "1" {
		digits := parts[1]
		if end := strings.IndexFunc(digits, func(c rune) bool { return c < '0' || c > '9' }); end >= 0 {
			digits = digits[:end]
		}
		if minor, err := strconv.Atoi(digits); err == nil && minor >= oldest {
			return minor, nil
		}
	}
	return 0, cmdutil.Usagef("--kubernetes-version %q: want 1.%d or newer", text, oldest)
}

// oldest is the first version with the stable API.
const oldest = 34

// subjects are what to explain: what is named, or else all that waits for
// devices. Files say what their pods are meant to be, so of those a claim that a
// pod names is explained with the pod only, and templates count too.
func (in *objects) subjects(refs []cmdutil.Reference, namespace, selector string, files bool) ([]explain.Subject, error) {
	var all []explain.Subject
	for _, ref := range refs {
		s, err := in.find(ref, namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if len(refs) > 0 {
		return all, nil
	}
	chosen, err := labels.Parse(selector)
	if err != nil {
		return nil, fmt.Errorf("selector %q: %w", selector, err)
	}
	all, named := in.waitingPods(chosen, files)
	for _, c := range in.claims {
		if c.Status.Allocation == nil && !named[cmdutil.KindClaim+c.Namespace+"/"+c.Name] && chosen.Matches(labels.Set(c.Labels)) {
			all = append(all, explain.OfClaim(c))
		}
	}
	if !files {
		return all, nil
	}
	for _, t := range in.templates {
		if !named[cmdutil.KindTemplate+t.Namespace+"/"+t.Name] && chosen.Matches(labels.Set(t.Labels)) {
			all = append(all, explain.OfTemplate(t))
		}
	}
	return all, nil
}

// waitingPods are the pods with claims, of a cluster those that are not
// scheduled; and which claims and templates any of the pods names.
func (in *objects) waitingPods(chosen labels.Selector, files bool) (all []explain.Subject, named map[string]bool) {
	named = map[string]bool{}
	for _, p := range in.pods {
		s := explain.OfPod(p, in.claims, in.templates, in.classes)
		if len(p.Spec.ResourceClaims)+len(s.Claims) == 0 {
			continue
		}
		for _, c := range s.Claims {
			named[cmdutil.KindClaim+c.Namespace+"/"+c.Name] = true
		}
		for _, ref := range p.Spec.ResourceClaims {
			if ref.ResourceClaimTemplateName != nil {
				named[cmdutil.KindTemplate+p.Namespace+"/"+*ref.ResourceClaimTemplateName] = true
			}
		}
		if chosen.Matches(labels.Set(p.Labels)) && (files || waits(p)) {
			all = append(all, s)
		}
	}
	return all, named
}

// waits says whether a pod has not been scheduled yet.
func waits(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// find finds what the command line names.
func (in *objects) find(ref cmdutil.Reference, namespace string) (explain.Subject, error) {
	var others []string
	switch ref.Kind {
	case cmdutil.KindPod:
		for _, p := range in.pods {
			if p.Namespace == namespace && p.Name == ref.Name {
				return explain.OfPod(p, in.claims, in.templates, in.classes), nil
			}
			others = append(others, p.Name)
		}
	case cmdutil.KindClaim:
		for _, c := range in.claims {
			if c.Namespace == namespace && c.Name == ref.Name {
				return explain.OfClaim(c), nil
			}
			others = append(others, c.Name)
		}
	case cmdutil.KindTemplate:
		for _, t := range in.templates {
			if t.Namespace == namespace && t.Name == ref.Name {
				return explain.OfTemplate(t), nil
			}
			others = append(others, t.Name)
		}
	}
	if err := in.unread[ref.Kind]; err != nil {
		return explain.Subject{}, fmt.Errorf("read %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	err := fmt.Errorf("%s %s/%s does not exist", ref.Kind, namespace, ref.Name)
	if meant := suggest.Closest(ref.Name, others); meant != "" {
		err = fmt.Errorf("%w: did you mean %s?", err, meant)
	}
	return explain.Subject{}, err
}
