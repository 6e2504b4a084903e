// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package tools_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/bench/tools"
)

func TestCheck(t *testing.T) {
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), -1} {
		if err := (tools.Figure{Name: "t_avg", Unit: "us", Value: value}).Check(); !errors.Is(err, tools.ErrValue) || !strings.Contains(err.Error(), "t_avg") {
			t.Errorf("%v: %v", value, err)
		}
	}
	if err := (tools.Figure{Value: math.SmallestNonzeroFloat64}).Check(); err != nil {
		t.Error(err)
	}
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                      `"plain"`,
		"a\x1b[31mred\nnext\xff":     `"a�[31mred�next�"`,
		strings.Repeat("x", 161):     `"` + strings.Repeat("x", 160) + `"...`,
		"\u202egnol a fo flah rehto": `"�gnol a fo flah rehto"`,
	} {
		if got := tools.Quote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	got, err := tools.Lines(strings.NewReader("one\r\n\ntwo\nhalf"))
	if diff := cmp.Diff([]string{"one", "", "two", "half"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"nothing":     {"", tools.ErrCut},
		"blank":       {" \n\t\n", tools.ErrCut},
		"a long line": {strings.Repeat("x", tools.MaxLine+1), tools.ErrTooLarge},
		"too much":    {strings.Repeat("x\n", tools.MaxOutput/2+1), tools.ErrTooLarge},
	} {
		if lines, err := tools.Lines(strings.NewReader(c.text)); !errors.Is(err, c.want) || lines != nil {
			t.Errorf("%s: %d lines, %v", name, len(lines), err)
		}
	}
	if _, err := tools.Lines(strings.NewReader(strings.Repeat("x\n", tools.MaxOutput/2))); err != nil {
		t.Errorf("as much as is allowed: %v", err)
	}
	away := errors.New("the pod is away")
	if _, err := tools.Lines(iotest.ErrReader(away)); !errors.Is(err, away) {
		t.Errorf("a reader that fails: %v", err)
	}
}

func TestWholeLines(t *testing.T) {
	got, err := tools.WholeLines(strings.NewReader("one\ntwo\n"))
	if diff := cmp.Diff([]string{"one", "two"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, text := range []string{"", "one\ntw"} {
		if _, err := tools.WholeLines(strings.NewReader(text)); !errors.Is(err, tools.ErrCut) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestJSON(t *testing.T) {
	type document struct {
		Value float64 `json:"value"`
	}
	var got document
	if err := tools.JSON(strings.NewReader("\n{\"value\": 2}\n"), &got); err != nil || got.Value != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]error{
		"":                     tools.ErrCut,
		`{"value": 2`:          tools.ErrCut,
		`{"secret": "s3cr3t`:   tools.ErrCut,
		`{"value": 2} {}`:      tools.ErrFormat,
		`{"value": nan}`:       tools.ErrFormat,
		`{"value": "s3cr3t"}`:  tools.ErrFormat,
		`[1]`:                  tools.ErrFormat,
		"# a table":            tools.ErrFormat,
		`{"a":"b",s3cr3t:"c"}`: tools.ErrFormat,
	} {
		err := tools.JSON(strings.NewReader(text), &document{})
		if !errors.Is(err, want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

func TestNumber(t *testing.T) {
	if got, err := tools.Number("t_avg", "1.51"); err != nil || got != 1.51 {
		t.Error(got, err)
	}
	if got, err := tools.Number("t_avg", "nan"); err != nil || !math.IsNaN(got) {
		t.Error(got, err)
	}
	if _, err := tools.Number("t_avg", "1,51"); !errors.Is(err, tools.ErrFormat) || err.Error() != `"t_avg" is "1,51": unknown form, want a number` {
		t.Error(err)
	}
}

func TestAgree(t *testing.T) {
	for _, c := range []struct {
		a, b, part float64
		want       bool
	}{{100, 101, 0.01, true}, {101, 100, 0.01, true}, {100, 102, 0.01, false}, {0, 0, 0, true}, {math.NaN(), 1, 1, false}} {
		if got := tools.Agree(c.a, c.b, c.part); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
