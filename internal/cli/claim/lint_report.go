// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"plumbline.dev/plumbline/internal/plural"
)

// Severities: an error will not work, a warning may not, and a note says what
// depends on the cluster's administrator.
const (
	severityError   = "error"
	severityWarning = "warning"
	severityNote    = "note"
)

// finding is one thing that is wrong, or may be.
type finding struct {
	Source    string `json:"source"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Field is the path of the field in the object.
	Field    string `json:"field"`
	Severity string `json:"severity"`
	// Value is what stands there, absent where nothing does.
	Value any `json:"value,omitempty"`
	// Message says what is wrong with it and what would be right.
	Message string `json:"message"`
}

// report is what lint has to say.
type report struct {
	Findings []finding `json:"findings"`
	// Checked is how many objects have parameters or claims.
	Checked  int `json:"checked"`
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Notes    int `json:"notes,omitempty"`
}

func (r *report) add(o *object, severity string, e *field.Error) {
	f := finding{Source: o.source, Kind: o.kind, Namespace: o.namespace, Name: o.name,
		Field: e.Field, Severity: severity, Message: e.ErrorBody()}
	switch e.BadValue.(type) {
	case string, bool, int32, int64, float64:
		if e.BadValue != "" || e.Type == field.ErrorTypeInvalid {
			f.Value = e.BadValue
		}
	}
	switch severity {
	case severityError:
		r.Errors++
	case severityWarning:
		r.Warnings++
	default:
		r.Notes++
	}
	if severity != severityError {
		// The words for kinds of errors are too strong for it.
		f.Message = e.Detail
		if f.Value != nil {
			f.Message = fmt.Sprintf("%v: %s", f.Value, e.Detail)
		}
	}
	r.Findings = append(r.Findings, f)
}

func (r *report) text(w io.Writer) error {
	for _, f := range r.Findings {
		name := f.Name
		if f.Namespace != "" {
			name = f.Namespace + "/" + name
		}
		if _, err := fmt.Fprintf(w, "%s: %s %s: %s: %s: %s\n", f.Source, f.Kind, name, f.Severity, f.Field, f.Message); err != nil {
			return err
		}
	}
	notes := ""
	if r.Notes > 0 {
		notes = ", " + plural.Count(r.Notes, "note", "notes")
	}
	_, err := fmt.Fprintf(w, "%s checked: %s, %s%s\n", plural.Count(r.Checked, "object", "objects"), plural.Count(r.Errors, "error", "errors"), plural.Count(r.Warnings, "warning", "warnings"), notes)
	return err
}
