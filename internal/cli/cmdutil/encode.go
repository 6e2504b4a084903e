// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// CheckFormat refuses an output format other than text, json and yaml.
func CheckFormat(format string) error {
	switch format {
	case "text", "json", "yaml":
		return nil
	}
	return Usagef("output format %q: want text, json or yaml", format)
}

// Encode writes v as indented JSON for the format "json", else as YAML of the
// same fields. Bytes that are not UTF-8 become U+FFFD.
func Encode(w io.Writer, format string, v any) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(v); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		return nil
	}
	text, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return nil
}
