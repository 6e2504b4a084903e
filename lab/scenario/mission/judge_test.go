// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mission

import (
	"strings"
	"testing"

	"plumbline.dev/plumbline/lab/scenario"
)

func TestJudges(t *testing.T) {
	for name, tc := range map[string]struct {
		judge  Judge
		prints string
		answer scenario.Answer
		// want is what differs, empty for nothing.
		want string
	}{
		"ends well":        {Judge{By: "succeeds"}, "", scenario.Answer{Out: "anything"}, ""},
		"ends ill":         {Judge{By: "succeeds"}, "", scenario.Answer{Code: 127, Complaint: "not found"}, "exit code 127: not found"},
		"exact":            {Judge{By: "exact"}, "a  b\nc", scenario.Answer{Out: "a b\n\nc\n"}, ""},
		"exact, more":      {Judge{By: "exact"}, "a", scenario.Answer{Out: "a\nb\n"}, `line "b" is not in the document`},
		"exact, less":      {Judge{By: "exact"}, "a\nb", scenario.Answer{Out: "a\n"}, `line "b" is missing`},
		"exact, other":     {Judge{By: "exact"}, "a", scenario.Answer{Out: "b\n"}, `line "b", printed "a"`},
		"own words":        {Judge{By: "exact", Own: map[string]string{"7s": `\d+[smh]`, "7s-a": `\w+`}}, "pod-7s-a x 7s", scenario.Answer{Out: "pod-k2 x 12m\n"}, ""},
		"own words, other": {Judge{By: "exact", Own: map[string]string{"7s": `\d+[smh]`}}, "pod 7s", scenario.Answer{Out: "pod soon\n"}, `line "pod soon"`},
		"no pattern":       {Judge{By: "lines"}, "a.c (x)", scenario.Answer{Out: "abc (x)\n"}, `line "a.c (x)" is missing`},
		"lines":            {Judge{By: "lines"}, "a\nc", scenario.Answer{Out: "a\nb\nc\nd\n"}, ""},
		"lines, order":     {Judge{By: "lines"}, "c\na", scenario.Answer{Out: "a\nc\n"}, `line "a" is missing`},
		"numbers":          {Judge{By: "numbers"}, "2 1000 1.45 us", scenario.Answer{Out: "#\n2 5 17.2 us\n"}, ""},
		"numbers, words":   {Judge{By: "numbers"}, "2 1000 1.45 us", scenario.Answer{Out: "2 5 fast us\n"}, "is missing"},
		"pattern":          {Judge{By: "pattern", Want: []string{"^b +1/1", "c$"}}, "", scenario.Answer{Out: "a\nb  1/1 c\n"}, ""},
		"pattern, absent":  {Judge{By: "pattern", Want: []string{"^b$"}}, "", scenario.Answer{Out: "bb\n"}, `nothing printed has "^b$"`},
		"fails":            {Judge{By: "fails", Want: []string{"^not found"}}, "", scenario.Answer{Code: 1, Complaint: "not found: x"}, ""},
		"fails not":        {Judge{By: "fails", Want: []string{"x"}}, "", scenario.Answer{Out: "x"}, "it ends well"},
		"fails, otherwise": {Judge{By: "fails", Want: []string{"x"}}, "", scenario.Answer{Code: 1}, `nothing printed has "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.judge.check(tc.prints); err != nil {
				t.Fatal(err)
			}
			err := tc.judge.differs(tc.prints, tc.answer)
			switch {
			case tc.want == "" && err != nil, tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestFields(t *testing.T) {
	const got = `
items:
- name: a
  attributes: {rdma: {bool: true}, node: {int: 1}}
- name: b
  attributes: {rdma: {bool: true}, node: {int: 0}, mtu: {int: 1000000}}
  ips: [10.0.0.1/24]
kind: List
`
	for prints, want := range map[string]string{
		"kind: List": "",
		"items: [{name: b, attributes: {node: {int: 0}, mtu: {int: 1000000}}}]":    "",
		"items: [{name: a, attributes: {node: {int: 0}}}]":                         ".items[0].attributes.node.int is 1, printed 0",
		"items: [{name: <pod>, attributes: {node: {int: 1}}}]":                     "",
		"items: [{ips: [10.0.0.2/24]}]":                                            ".items[0].ips[0] is missing",
		"items: [{name: c}]":                                                       ".items[0].name is a, printed c",
		"items: {name: a}":                                                         "printed is an object",
		"kind: [List]":                                                             "printed is a list",
		"metadata: {}":                                                             ".metadata is missing",
		"items: [{name: a, attributes: {rdma: {bool: false}}}, {name: b}]":         "printed false",
		"items: [{name: b, attributes: {rdma: {bool: true}}}, {name: a, ips: []}]": ".items[1].name is b, printed a",
	} {
		judge := Judge{By: "fields"}
		if strings.Contains(prints, "<pod>") {
			judge.Own = map[string]string{"<pod>": "[ab]"}
		}
		err := judge.differs(prints, scenario.Answer{Out: got})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", prints, err, want)
		}
	}
	judge := Judge{By: "fields"}
	if err := judge.differs("kind: List", scenario.Answer{Out: "a: ["}); err == nil {
		t.Error("what is no YAML has fields")
	}
}
