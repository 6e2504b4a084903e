// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import "errors"

// Reasons of failed calls beside the steps of preparing, for the figures.
const (
	reasonRuntime = "runtime"
	// reasonWithdrawn: the node's labels do not have the driver served.
	reasonWithdrawn = "withdrawn"
	reasonOther     = "other"
)

// failure is an error with the step at which it came.
type failure struct {
	error
	reason string
}

func (f failure) Unwrap() error { return f.error }

func withReason(reason string, err error) error { return failure{error: err, reason: reason} }

// reasonOf is why a call failed; empty where it did not.
func reasonOf(err error) string {
	var f failure
	switch {
	case err == nil:
		return ""
	case errors.As(err, &f):
		return f.reason
	}
	return reasonOther
}
