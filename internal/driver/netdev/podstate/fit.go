// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"plumbline.dev/plumbline/internal/host/rtnl"
)

// unfit are the kernel's answers to an entry that the interface's addresses, or
// its want of a family, do not allow.
var unfit = []syscall.Errno{
	syscall.EINVAL,       // a source address that is not the namespace's; a gateway that is; no IPv6 on the interface
	syscall.ENETUNREACH,  // a gateway of IPv4 that no route leads to
	syscall.EHOSTUNREACH, // one of IPv6
	syscall.ENODEV,       // IPv6 below its least MTU (net/ipv6/route.c, fib6_nh_init)
	syscall.EACCES,       // IPv6 switched off
}

// fitter takes the host's entries into the pod that fit there.
type fitter struct {
	// strict takes none for unfit: the addresses are the host's, too.
	strict bool
	// leftOut are the unfit ones, and why.
	leftOut []string
}

// fit returns the error of adding an entry of the host, unless the entry is to
// be left out for it.
func (f *fitter) fit(kind string, s rtnl.Saved, err error) error {
	var errno syscall.Errno
	if f.strict || !errors.As(err, &errno) || !slices.Contains(unfit, errno) {
		return err
	}
	f.leftOut = append(f.leftOut, fmt.Sprintf("%s %s: %s", kind, s.Text, errno))
	return nil
}
