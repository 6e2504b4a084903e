// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/hostpolicy"
	"plumbline.dev/plumbline/internal/model"
)

// sharedBy is a machine of two NICs, of which claims have shares of the first, which no policy
// offers any more.
func sharedBy(t *testing.T) (*model.Machine, *sharedNICs) {
	t.Helper()
	offers, err := hostpolicy.OpenShares(filepath.Join(t.TempDir(), "shares.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m model.Machine
	for _, name := range []string{"eth0", "eth1"} {
		m.NICs = append(m.NICs, model.NIC{Interface: &model.Interface{Name: name}, RDMA: &model.RDMADevice{Name: "mlx5_" + name}})
	}
	held := m.NICs[0]
	held.Share = &model.Share{Type: model.ShareMacvlan, Slots: 4}
	return &m, &sharedNICs{
		offers: offers,
		held:   func(context.Context) ([]model.HeldShare, error) { return []model.HeldShare{{NIC: held, Slots: 1}}, nil },
		mode:   func() (rdma.Mode, error) { return rdma.Shared, nil },
	}
}

// A NIC that pods share is not offered whole because the agent cannot read which those are.
func TestSharesThatCannotBeRead(t *testing.T) {
	m, s := sharedBy(t)
	offered := func() (shared, whole []string) {
		for _, n := range s.withhold(s.describe(t.Context(), m), nil).NICs {
			switch {
			case n.Share != nil:
				shared = append(shared, n.Interface.Name)
			case n.Offered():
				whole = append(whole, n.Interface.Name)
			}
		}
		return shared, whole
	}
	read := s.held
	for _, step := range []struct {
		what          string
		held          func(context.Context) ([]model.HeldShare, error)
		shared, whole []string
	}{
		{"never read", func(context.Context) ([]model.HeldShare, error) { return nil, errors.New("the disk is away") }, nil, nil},
		{"read", read, []string{"eth0"}, []string{"eth1"}},
		{"not any more", func(context.Context) ([]model.HeldShare, error) { return nil, errors.New("the disk is away") }, []string{"eth0"}, []string{"eth1"}},
		{"none", func(context.Context) ([]model.HeldShare, error) { return nil, nil }, nil, []string{"eth0", "eth1"}},
		{"not any more, after none", func(context.Context) ([]model.HeldShare, error) { return nil, errors.New("the disk is away") }, nil, []string{"eth0", "eth1"}},
	} {
		s.held = step.held
		shared, whole := offered()
		if !cmp.Equal(shared, step.shared) || !cmp.Equal(whole, step.whole) {
			t.Errorf("%s: shared %v, whole %v; want %v, %v", step.what, shared, whole, step.shared, step.whole)
		}
	}
}

// An RDMA device is published only of NICs of which holders are known to see it.
func TestRDMAModeThatCannotBeRead(t *testing.T) {
	m, s := sharedBy(t)
	broken := errors.New("netlink is away")
	for _, step := range []struct {
		mode rdma.Mode
		err  error
		want bool
	}{
		{"", broken, false},
		{rdma.Shared, nil, true},
		{"", broken, true},
		{rdma.Exclusive, nil, false},
		{"", broken, false},
		{"", rdma.ErrNone, true},
	} {
		s.mode = func() (rdma.Mode, error) { return step.mode, step.err }
		nics := s.describe(t.Context(), m).NICs
		if got := nics[0].InShares().RDMA != nil; got != step.want || nics[1].InShares().RDMA == nil {
			t.Errorf("mode %q, %v: a share has the RDMA device %t, want %t", step.mode, step.err, got, step.want)
		}
	}
}

// What is wrong with a NIC is wrong with the device by which it is offered whole, too.
func TestFaultsOfTwins(t *testing.T) {
	m, _ := sharedBy(t)
	m.NICs[0].Share = &model.Share{Type: model.ShareMacvlan, Slots: 4, AlsoExclusive: true}
	faults := map[string][]model.Fault{"eth0": {{Kind: model.FaultCarrier}}, "eth1": {{Kind: model.FaultPCIe}}}
	want := map[string][]model.Fault{"eth0": faults["eth0"], "eth0-whole": faults["eth0"], "eth1": faults["eth1"]}
	if diff := cmp.Diff(want, faultsOfTwins(m, faults)); diff != "" || len(faults) != 2 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"eth0", "eth1", "eth0-whole"}, withTwins(m, []string{"eth0", "eth1"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
