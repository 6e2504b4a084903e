// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"plumbline.dev/plumbline/docs/docstest"
)

// docs/policies.md lists what the shipped policy guards, each setting with the
// fields that its refusal names, and nothing else.
func TestGuardedSettingsAreDocumented(t *testing.T) {
	shippedNames := map[string]string{}
	setting := regexp.MustCompile(`^"([\w., ]+): claims of namespace .*allow\.plumbline\.dev/(\w+)=true"$`)
	policy := shipped[admissionv1.ValidatingAdmissionPolicy](t, "ValidatingAdmissionPolicy", "plumbline-claim-parameters")
	for _, v := range policy.Spec.Validations {
		if m := setting.FindStringSubmatch(v.MessageExpression); m != nil {
			shippedNames[m[2]] = m[1]
		}
	}
	if len(shippedNames) != len(policy.Spec.Validations)-1 {
		t.Errorf("%d settings in %d validations, of which one is about shapes", len(shippedNames), len(policy.Spec.Validations))
	}
	page := docstest.Page(t, "policies.md")
	documented := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]+) \\|")
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		documented[m[1]] = m[2]
	}
	if !slices.Equal(slices.Sorted(maps.Keys(shippedNames)), slices.Sorted(maps.Keys(documented))) {
		t.Errorf("the page has %q, the policy guards %q", documented, shippedNames)
	}
	for name, fields := range shippedNames {
		for _, field := range regexp.MustCompile(`[\w.]+`).FindAllString(fields, -1) {
			if !regexp.MustCompile("`" + regexp.QuoteMeta(field) + "`").MatchString(documented[name]) {
				t.Errorf("%s: the page names %s, the policy is about %s", name, documented[name], field)
			}
		}
	}
}
