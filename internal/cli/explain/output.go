// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/explain"
)

// write writes reports; of machine formats always as a list.
func write(w io.Writer, format string, reports []*explain.Report) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(reports)
	case "yaml":
		text, err := yaml.Marshal(reports)
		if err != nil {
			return fmt.Errorf("write reports: %w", err)
		}
		_, err = w.Write(text)
		return err
	}
	for i, r := range reports {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := r.Text(w); err != nil {
			return err
		}
	}
	return nil
}
