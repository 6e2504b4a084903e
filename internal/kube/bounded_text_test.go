// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import "testing"

func TestTextsThatAPodMayWrite(t *testing.T) {
	for _, c := range []struct {
		most       int
		text, want string
	}{
		{99, "interface nic0: up\n\tand down", "interface nic0: up\n\tand down"},
		{99, "interface \x1b[2J\x7f\u0085 of the pod", "interface \ufffd[2J\ufffd\ufffd of the pod"},
		{99, "no UTF-8: \xff\xc3", "no UTF-8: \ufffd\ufffd"},
		{5, "ninety °", "ninet"},
		{8, "ninety °", "ninety "},
		{9, "ninety °", "ninety °"},
		{4, "\xff\xff", "\ufffd"},
		{0, "°", ""},
	} {
		if got := BoundedText(c.most, c.text); got != c.want {
			t.Errorf("%d of %q: %q, want %q", c.most, c.text, got, c.want)
		}
	}
}
