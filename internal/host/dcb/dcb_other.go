// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package dcb

import "errors"

// Read says that there is none here.
func Read(string) (Settings, error) { return Settings{}, errors.ErrUnsupported }
