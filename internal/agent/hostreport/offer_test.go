// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/doctor"
	"plumbline.dev/plumbline/internal/model"
)

// changed says whether there was something new to tell, and forgets it.
func changed(o *Offer) bool {
	select {
	case <-o.Changed():
		return true
	default:
		return false
	}
}

func TestChecksThatSlicesAreMadeOfAreThere(t *testing.T) {
	for _, name := range []string{gpuMemory} {
		if !slices.ContainsFunc(doctor.Checks(), func(c doctor.Check) bool { return c.Name == name }) {
			t.Errorf("doctor has no check %s", name)
		}
	}
}

func gpuReport(v hosts.Verdict) hosts.Report {
	r := hosts.Report{Checks: []string{"rdma-modules", "dma-buf"}}
	if v != hosts.OK {
		r.Findings = []hosts.Finding{{Check: "dma-buf", Verdict: v, Severity: hosts.Functional}}
	}
	return r
}

func TestNICsSayWhetherTheyReachGPUs(t *testing.T) {
	rdma := nicAt("0000:91:00.0")
	rdma.RDMA = &model.RDMADevice{Name: "mlx5_0"}
	plain := nicAt("0000:92:00.0")
	soft := nicAt("0000:93:00.0")
	soft.RDMA = &model.RDMADevice{Name: "rxe0", Software: true}
	standIn := nicAt("0000:94:00.0")
	standIn.RDMA, standIn.Simulated = rdma.RDMA, ptr.To("stand-in")
	scan := &model.Machine{NICs: []model.NIC{rdma, plain, soft, standIn, {RDMA: &model.RDMADevice{Name: "siw0"}}}}
	for name, c := range map[string]struct {
		report hosts.Report
		want   *bool
	}{
		"no GPU":        {hosts.Report{Checks: []string{"rdma-modules"}}, nil},
		"nothing asked": {hosts.Report{}, nil},
		"right":         {gpuReport(hosts.OK), ptr.To(true)},
		"wrong":         {gpuReport(hosts.Wrong), ptr.To(false)},
		"cannot tell":   {gpuReport(hosts.Unknown), nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOffer()
			o.Looked(c.report)
			if changed(o) != (c.want != nil) {
				t.Errorf("changed: %t", c.want == nil)
			}
			var got []*bool
			for _, n := range o.Describe(scan).NICs {
				got = append(got, n.GPUDirect)
			}
			if diff := cmp.Diff([]*bool{c.want, nil, nil, nil, nil}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if scan.NICs[0].GPUDirect != nil {
				t.Error("the scan itself was changed")
			}
		})
	}
}

// What the first look finds is told at once: the slices of a restarted agent are those
// that there were. What changes later has to be seen twice.
func TestOfferIsChangedByTwoLooks(t *testing.T) {
	o := NewOffer()
	var got []bool
	for _, v := range []hosts.Verdict{hosts.OK, hosts.OK, hosts.Wrong, hosts.OK, hosts.Wrong, hosts.Wrong, hosts.Wrong, hosts.Unknown, hosts.Unknown} {
		o.Looked(gpuReport(v))
		got = append(got, changed(o))
	}
	want := []bool{true, false, false, false, false, true, false, false, true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
