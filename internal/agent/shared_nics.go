// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"maps"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/hostpolicy"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// sharedNICs says how NICs are shared. What it cannot read is as it last was, and before
// that as does least harm: nobody is given whole what pods may share, or an RDMA device that
// its pod may not see.
type sharedNICs struct {
	offers *hostpolicy.Shares
	held   func(context.Context) ([]model.HeldShare, error)
	mode   func() (rdma.Mode, error)

	last []model.HeldShare
	// doubt is why last was never read; nil once it was.
	doubt error
	// exclusive is the last mode of RDMA devices that was read; nil for none.
	exclusive *bool
}

// describe adds to a machine how its NICs are shared.
func (s *sharedNICs) describe(ctx context.Context, m *model.Machine) *model.Machine {
	s.readHeld(ctx)
	if len(s.last) == 0 && !s.offers.Any() {
		return m
	}
	return s.offers.Describe(m, s.last, s.isExclusive(ctx))
}

func (s *sharedNICs) readHeld(ctx context.Context) {
	held, err := s.held(ctx)
	switch {
	case err == nil:
		s.last, s.doubt = held, nil
		if held == nil {
			s.last = []model.HeldShare{}
		}
	case s.last != nil:
		klog.FromContext(ctx).Error(err, "not known which NICs claims share: they are published as before")
	default:
		s.doubt = err
		klog.FromContext(ctx).Error(err, "not known which NICs claims share: those that no HostPolicy shares are not offered")
	}
}

func (s *sharedNICs) isExclusive(ctx context.Context) bool {
	mode, err := s.mode()
	switch {
	case err == nil, errors.Is(err, rdma.ErrNone): // without RDMA devices nobody misses one
		s.exclusive = new(err == nil && mode == rdma.Exclusive)
	case s.exclusive == nil:
		klog.FromContext(ctx).Error(err, "not known whether pods see RDMA devices of NICs that are shared: they are published without")
		return true
	default:
		klog.FromContext(ctx).Error(err, "not known whether pods see RDMA devices of NICs that are shared: they are published as before")
	}
	return *s.exclusive
}

// withhold keeps NICs from claims while nothing is known.
func (s *sharedNICs) withhold(m *model.Machine, whole []model.NIC) *model.Machine {
	if s.doubt == nil {
		return m
	}
	return s.offers.Doubt(m, whole, s.doubt)
}

// withTwins are device names, with those under which NICs are offered whole that are shared.
func withTwins(m *model.Machine, devices []string) []string {
	all := devices
	for _, name := range devices {
		if n := slicecodec.FindNIC(m, name); n != nil && n.HasTwin() {
			all = append(all, slicecodec.TwinName(*n))
		}
	}
	return all
}

// faultsOfTwins are faults by device name, those of a NIC also under its twin's.
func faultsOfTwins(m *model.Machine, faults map[string][]model.Fault) map[string][]model.Fault {
	all := maps.Clone(faults)
	for name, list := range faults {
		if n := slicecodec.FindNIC(m, name); n != nil && n.HasTwin() {
			all[slicecodec.TwinName(*n)] = list
		}
	}
	return all
}
