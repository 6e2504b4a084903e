// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/explain"
)

// askDerived asks the API server by a dry run whether it keeps the derived attributes
// that claims or templates of files have, unless what was said of gates answers that.
// Where it may not be asked a note says so.
func (r *reader) askDerived(given *objects, said, namespace string) {
	object, spec := given.deriving()
	if spec == nil || strings.Contains(said, allocation.GateDerivedAttributes) {
		return
	}
	stored, err := cmdutil.DryRunClaim(r.ctx, r.client, namespace, spec)
	switch {
	case err != nil:
		r.notes = append(r.notes, fmt.Sprintf("whether the API server keeps the derivedAttributes of %s is not known (%s): --feature-gates says it",
			object, cmdutil.OneLine(err)))
	case explain.Derives(&stored.Spec):
		r.in.keepsDerived = true
	default:
		r.notes = append(r.notes, fmt.Sprintf("the API server drops the derivedAttributes of %s without a word (a dry run came back without them): feature gate %s is off there, "+
			"and constraints will compare what devices publish", object, allocation.GateDerivedAttributes))
	}
}

// deriving is the first claim or template that has derived attributes, nil if none has.
func (in *objects) deriving() (string, *resourceapi.ResourceClaimSpec) {
	for _, c := range in.claims {
		if explain.Derives(&c.Spec) {
			return cmdutil.KindClaim + " " + c.Name, &c.Spec
		}
	}
	for _, t := range in.templates {
		if explain.Derives(&t.Spec.Spec) {
			return cmdutil.KindTemplate + " " + t.Name, &t.Spec.Spec
		}
	}
	return "", nil
}
