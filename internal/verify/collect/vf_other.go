// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package collect

import "errors"

func hostLinks(string) (func(index int) (map[int]VFSettings, error), func(), error) {
	return nil, nil, errors.ErrUnsupported
}
