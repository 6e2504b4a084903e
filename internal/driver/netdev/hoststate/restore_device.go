// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hoststate

import (
	"errors"
	"io/fs"

	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/bpf"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// restoreDevice puts back what belongs to the device.
func (h *Host) restoreDevice(index int, want *State) error {
	if err := h.Ethtool.RestoreFeatures(want.Name, want.Features); err != nil {
		return err
	}
	h.Step()
	if err := h.Ethtool.SetPrivateFlags(want.Name, want.PrivateFlags); err != nil {
		return err
	}
	h.Step()
	if err := h.Ethtool.RestoreSettings(want.Name, want.Ethtool); err != nil {
		return err
	}
	h.Step()
	return h.restorePrograms(index, want)
}

// restorePrograms puts back the programs that were held. One that was not, and
// that is gone, was taken off by its owner before it came to that: he has no use
// for it, and neither is it missed.
func (h *Host) restorePrograms(index int, want *State) error {
	if want.Key == "" {
		want.Programs = nil
		return nil
	}
	// An interrupted staging may have taken them off without saying where it
	// keeps them.
	programs, err := h.Programs.Hold(want.Key, want.Programs)
	if errors.Is(err, fs.ErrNotExist) {
		programs, err = nil, nil
	}
	if err != nil {
		return err
	}
	want.Programs = programs
	if err := h.Programs.Restore(h.Fd(), h.Conn, index, programs); err != nil {
		return err
	}
	h.Step()
	return h.Programs.Release(want.Key)
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
