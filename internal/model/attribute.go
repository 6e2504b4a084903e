// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package model

// Attribute is a typed value of a NIC that is not from the host: exactly one field is
// set.
type Attribute struct {
	Text   *string `json:"text,omitempty"`
	Number *int64  `json:"number,omitempty"`
	Flag   *bool   `json:"flag,omitempty"`
}

// TextAttribute is an attribute that is a string.
func TextAttribute(v string) Attribute { return Attribute{Text: &v} }

// NumberAttribute is an attribute that is an integer.
func NumberAttribute(v int64) Attribute { return Attribute{Number: &v} }

// FlagAttribute is an attribute that is true or false.
func FlagAttribute(v bool) Attribute { return Attribute{Flag: &v} }
