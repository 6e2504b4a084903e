// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// UsageError is a wrong command line, as opposed to a thing gone wrong.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e UsageError) Unwrap() error { return e.Err }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// ErrReported is the error of a command that has said already what is wrong:
// the exit code is all that is left to do.
var ErrReported = errors.New("reported")

// ExitError is ErrReported with an exit code of its own, which the command's help
// explains.
type ExitError struct{ Code int }

func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// Is says that everything was reported.
func (e ExitError) Is(target error) bool { return target == ErrReported }

// NoArgs refuses arguments, naming the first.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return Usagef("unknown command %q", args[0])
	}
	return Usagef("unexpected argument %q", args[0])
}

// OneLine joins an error's lines: an error is one line on the terminal.
func OneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.Join(lines, "; ")
}
