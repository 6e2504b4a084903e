// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package driver

// GoneError says of a device that it is nowhere any more and will not come back, such
// as a virtual link that ended with its namespace: nothing of it can be restored, and
// nothing is left to undo.
type GoneError struct{ Err error }

func (e GoneError) Error() string { return e.Err.Error() }

// Unwrap is what has gone.
func (e GoneError) Unwrap() error { return e.Err }

// OnlyGone says whether bringing devices back failed over nothing but those that have
// gone, so that there is nothing to try again.
func OnlyGone(err error) bool { return only[GoneError](err) }
