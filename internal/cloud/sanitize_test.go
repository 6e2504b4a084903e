// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/model"
)

func TestClean(t *testing.T) {
	text := model.TextAttribute
	got := sanitize(Answer{Attributes: map[string]model.Attribute{
		"acme.com/rack":                    text("r7"),
		"acme.com/slot":                    model.NumberAttribute(-3),
		"acme.com/spare":                   model.FlagAttribute(false),
		"acme.com/long":                    text(strings.Repeat("x", 65)),
		"acme.com/fits":                    text(strings.Repeat("x", 64)),
		"acme.com/empty":                   text(""),
		"acme.com/none":                    {},
		"acme.com/binary":                  text("\xff\xfe"),
		"rack":                             text("r7"),
		"acme.com/no-identifier":           text("r7"),
		"resource.kubernetes.io/pcieRoot":  text("pci0000:00"),
		strings.Repeat("a", 70) + ".com/x": text("r7"),
	}})
	want := map[string]model.Attribute{
		"acme.com/rack": text("r7"), "acme.com/slot": model.NumberAttribute(-3), "acme.com/spare": model.FlagAttribute(false),
		"acme.com/fits": text(strings.Repeat("x", 64)),
	}
	if diff := cmp.Diff(want, got.Attributes); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if len(got.Omitted) != 8 || !slices.Contains(got.Omitted, "attribute acme.com/long: its text has 65 bytes, want 64 at most") {
		t.Errorf("left out: %q", got.Omitted)
	}
}

func TestCleanKeepsTheSameOnesOfTooMany(t *testing.T) {
	many := Answer{Attributes: map[string]model.Attribute{}}
	for i := range 100 {
		many.Attributes[fmt.Sprintf("acme.com/a%02d", i)] = model.NumberAttribute(int64(i))
	}
	got := sanitize(many)
	if len(got.Attributes) != maxAttributes || got.Attributes["acme.com/a00"].Number == nil {
		t.Errorf("kept %d attributes: %v", len(got.Attributes), got.Attributes)
	}
}

func FuzzClean(f *testing.F) {
	f.Add("acme.com/rack", "r7")
	f.Add("rack", strings.Repeat("x", 65))
	f.Add("a/\xff", "\xff")
	f.Fuzz(func(t *testing.T, name, value string) {
		for kept, v := range sanitize(Answer{Attributes: map[string]model.Attribute{name: model.TextAttribute(value)}}).Attributes {
			if kept != name || *v.Text != value || len(value) == 0 || len(value) > 64 || !utf8.ValidString(value) {
				t.Errorf("kept %q: %q", kept, value)
			}
		}
	})
}

func TestList(t *testing.T) {
	long := strings.Repeat("x", 30)
	for _, test := range []struct {
		items []string
		want  string
	}{
		{nil, ""},
		{[]string{"10.24.3.0/24"}, "10.24.3.0/24"},
		{[]string{"b", "a"}, "b,a"},
		{[]string{long, long, long}, long + "," + long},
		{[]string{strings.Repeat("x", 65), "a"}, ""},
	} {
		if got := List(test.items); got != test.want {
			t.Errorf("List(%q) = %q, want %q", test.items, got, test.want)
		}
	}
}
