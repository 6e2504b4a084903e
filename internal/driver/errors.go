// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package driver

import "slices"

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

// HeldError is a refusal over what other claims of the node still hold. A claim that
// was deallocated is held until its pod's containers have ended, and the scheduler
// may have given its devices away by then.
type HeldError struct{ Err error }

func (e HeldError) Error() string { return e.Err.Error() }

// Unwrap is the refusal itself.
func (e HeldError) Unwrap() error { return e.Err }

// OnlyHeld says whether a refusal has no reason but what other claims hold, so that
// it passes when they go: of several reasons, each.
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
