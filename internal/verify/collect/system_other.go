// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package collect

import (
	"errors"
	"os"
)

// Of what a container sees only Linux tells; Open refuses before any of this is
// called.
const sysfsMagic, crossing, staying, sameMount, beneathMount, linkItself = 0, 0, 0, 0, 0, 0

func openPath(string) (int, error) { return -1, errors.ErrUnsupported }

func open(*os.File, string, int, uint64) (int, error) { return -1, errors.ErrUnsupported }

func isOf(*os.File, int64) error { return errors.ErrUnsupported }

func readLink(*os.File, string) (string, error) { return "", errors.ErrUnsupported }

func deviceNumber(int, string) (string, bool, error) { return "", false, errors.ErrUnsupported }
