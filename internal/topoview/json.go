// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package topoview

import (
	"encoding/json"
	"fmt"
	"io"
)

// JSON writes a topology as indented JSON of the schema in topology.go. Bytes
// that are not UTF-8 become U+FFFD.
func JSON(w io.Writer, t *Topology) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(t); err != nil {
		return fmt.Errorf("write topology: %w", err)
	}
	return nil
}
