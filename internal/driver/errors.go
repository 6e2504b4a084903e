// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package driver

import "slices"

// GoneError is for a device that has gone for good, such as a virtual link that ended
// with its namespace: nothing of it can be restored, and nothing is left to undo.
type GoneError struct{ Err error }

func (e GoneError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e GoneError) Unwrap() error { return e.Err }

// OnlyGone says whether every reason of an error of Detach is a device that has gone, so
// that a retry is of no use.
func OnlyGone(err error) bool { return only[GoneError](err) }

// HeldError is a refusal over what other claims of the node still hold. A claim that
// was deallocated is held until its pod's containers have ended, and the scheduler
// may have given its devices away by then.
type HeldError struct{ Err error }

func (e HeldError) Error() string { return e.Err.Error() }

// Unwrap is the refusal itself.
func (e HeldError) Unwrap() error { return e.Err }

// OnlyHeld says whether every reason of a refusal is what other claims hold, so that a
// retry succeeds once those are released.
func OnlyHeld(err error) bool { return only[HeldError](err) }

// only says whether every reason of an error is of one type.
func only[T error](err error) bool {
	switch e := err.(type) { //nolint:errorlint // errors.As finds one reason, and each counts
	case T:
		return true
	case interface{ Unwrap() []error }:
		reasons := e.Unwrap()
		return len(reasons) > 0 && !slices.ContainsFunc(reasons, func(reason error) bool { return !only[T](reason) })
	case interface{ Unwrap() error }:
		return only[T](e.Unwrap())
	}
	return false
}
