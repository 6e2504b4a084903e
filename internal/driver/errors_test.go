// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"errors"
	"fmt"
	"testing"

	"plumbline.dev/plumbline/internal/driver"
)

func TestOnlyHeld(t *testing.T) {
	held, other := driver.HeldError{Err: errors.New("claim a holds it")}, errors.New("no such NIC")
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{other, false},
		{held, true},
		{fmt.Errorf("claim b: %w", held), true},
		{fmt.Errorf("claim b: %w", other), false},
		{errors.Join(held, fmt.Errorf("device nic1: %w", held)), true},
		{errors.Join(held, other), false},
		{fmt.Errorf("claim b: %w; also %w", held, other), false},
	} {
		if got := driver.OnlyHeld(test.err); got != test.want {
			t.Errorf("%v: %t, want %t", test.err, got, test.want)
		}
	}
}
