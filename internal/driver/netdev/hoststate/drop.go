// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"errors"
	"slices"

	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/bpf"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// DropAltNames takes names away that the link did not have on the host: they
// could be another's there, and the kernel would refuse the move. The link is
// changed along.
func DropAltNames(conn *rtnl.Conn, link *rtnl.Link, want *State) error {
	var kept []string
	for i, name := range link.AltNames {
		if slices.Contains(want.AltNames, name) {
			kept = append(kept, name)
			continue
		}
		if err := conn.DeleteAltName(link.Index, name); err != nil {
			link.AltNames = append(kept, link.AltNames[i:]...)
			return err
		}
	}
	link.AltNames = kept
	return nil
}

// DropPrograms takes the programs off a link in a pod that the pod has put there
// and that would come to the host, and to the next pod, with it. It goes on after
// an error.
func DropPrograms(pod *nslink.NetNSConn, link *rtnl.Link, want *State) error {
	var err error
	if link.XDP && !want.XDP {
		err = pod.DetachXDP(link.Index)
	}
	return errors.Join(err, bpf.DetachOthers(pod.Fd(), link.Index, want.Programs))
}
