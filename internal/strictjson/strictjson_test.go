// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package strictjson_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"plumbline.dev/plumbline/internal/strictjson"
)

type sample struct {
	Name   *string                      `json:"name,omitempty"`
	Small  *int32                       `json:"small,omitempty"`
	On     *bool                        `json:"on,omitempty"`
	Limit  *resource.Quantity           `json:"limit,omitempty"`
	Limits map[string]resource.Quantity `json:"limits,omitempty"`
	Below  []struct {
		Value string `json:"value"`
	} `json:"below,omitempty"`
}

// What is wrong is said of each field, with what would be right.
func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                            "",
		`{"name": null, "limit": null}`: "",
		`{"limit": "10Gi", "limits": {"0": 1048576, "1": "1.5Gi", "2": " 1Gi "}}`: "",
		``:                          "parameters are empty: want an object, at least {}",
		`{`:                         "parameters are no JSON: ",
		`[]`:                        "parameters: Invalid value: is a list, want an object",
		`{"nam": "a"}`:              "nam: Forbidden: no such field: did you mean name?",
		`{"other": 1}`:              "other: Forbidden: no such field: want one of below, limit, limits, name, on, small",
		`{"NAME": "a"}`:             "NAME: Forbidden: no such field: did you mean name?",
		`{"name": "a", "name": ""}`: "name: Forbidden: is there twice",
		`{"small": 2147483648}`:     "small: Invalid value: 2147483648: is a number, want a whole number of at most 32 bits",
		`{"small": 1.5}`:            "small: Invalid value: 1.5: is a number, want a whole number of at most 32 bits",
		`{"on": "yes"}`:             `on: Invalid value: "yes": is a string, want true or false`,
		`{"limit": "ten"}`:          `limit: Invalid value: "ten": want a quantity, such as 10Gi`,
		`{"limit": ""}`:             `limit: Invalid value: "": want a quantity, such as 10Gi`,
		`{"limit": " "}`:            `limit: Invalid value: " ": want a quantity, such as 10Gi`,
		`{"limit": true}`:           "limit: Invalid value: true: is a boolean, want a quantity, such as 10Gi",
		`{"limits": {"0": null}}`:   "limits[0]: Invalid value: null: is null, want a quantity, such as 10Gi",
		`{"limits": {"0": "1gb"}}`:  `limits[0]: Invalid value: "1gb": want a quantity, such as 10Gi`,
		`{"below": [{"value": "a"}, {"value": 1}]}`: "below[1].value: Invalid value: 1: is a number, want a string",
	} {
		var s sample
		err := strictjson.Decode([]byte(text), &s)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Of an object of any shape a repeated field is refused, and nothing else.
func TestDecodeAnything(t *testing.T) {
	var object map[string]any
	if err := strictjson.Decode([]byte(`{"a": [1, {"b": null}]}`), &object); err != nil || len(object) != 1 {
		t.Errorf("%v, %v", object, err)
	}
	if err := strictjson.Decode([]byte(`{"a": {"b": 1, "b": 2}}`), &object); err == nil || err.Error() != "a.b: Forbidden: is there twice" {
		t.Error(err)
	}
}
