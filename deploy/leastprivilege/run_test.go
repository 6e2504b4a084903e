// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package leastprivilege

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestJudge(t *testing.T) {
	slices := schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}
	forbidden := apierrors.NewForbidden(slices, "x", errors.New("of that node only"))
	tests := []struct {
		name    string
		request Request
		answer  error
		wrong   bool
	}{
		{"allowed as listed", Request{}, nil, false},
		{"refused as listed", Request{Refused: "of that node only"}, forbidden, false},
		{"refused against the list", Request{}, forbidden, true},
		{"allowed against the list", Request{Refused: "of that node only"}, nil, true},
		{"refused for another reason", Request{Refused: "its own drivers"}, forbidden, true},
		{"lost connection is no refusal", Request{Refused: "of that node"}, errors.New("of that node: connection reset"), true},
		{"absent is no refusal", Request{Refused: "x"}, apierrors.NewNotFound(slices, "x"), true},
		{"absent where the list accepts it", Request{Refused: "x", OrAbsent: true}, apierrors.NewNotFound(slices, "x"), false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := judge(tc.request, tc.answer); (got.Wrong != nil) != tc.wrong {
				t.Errorf("judged wrong: %v, want wrong: %t", got.Wrong, tc.wrong)
			}
		})
	}
}
