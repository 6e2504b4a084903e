// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/doctor"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

func nicAt(address string) model.NIC {
	a, err := model.ParsePCIAddress(address)
	if err != nil {
		panic(err)
	}
	return model.NIC{PCI: &a}
}

func TestOnlyWhatIsWrongWithADeviceIsSaidOfIt(t *testing.T) {
	mine, other := nicAt("0000:91:00.0"), nicAt("0000:92:00.0")
	finding := func(subject string, v hosts.Verdict, s hosts.Severity) hosts.Finding {
		return hosts.Finding{Check: "pcie-link", Subject: subject, Verdict: v, Severity: s, Found: "x8", Want: "x16"}
	}
	ready := status.Answer{Status: metav1.ConditionTrue, Reason: "HostReady", Message: "no check of the host found anything wrong with the device"}
	slow := status.Answer{Status: metav1.ConditionFalse, Reason: "PcieLink", Message: "pcie-link: x8, want x16 (performance)"}
	both := status.Answer{Status: metav1.ConditionFalse, Reason: "PcieLink", Message: "pcie-link: x8, want x16 (functional); pcie-link: x8, want x16 (performance)"}
	tests := []struct {
		name     string
		findings []hosts.Finding
		want     status.Answer
	}{
		{"nothing", nil, ready},
		{"of the host", []hosts.Finding{finding("", hosts.Wrong, hosts.Functional)}, ready},
		{"of a device that begins alike", []hosts.Finding{finding("0000:91:00.01 x", hosts.Wrong, hosts.Functional)}, ready},
		{"unknown", []hosts.Finding{finding("0000:91:00.0 eth0", hosts.Unknown, hosts.Functional)}, ready},
		{"worth knowing", []hosts.Finding{finding("0000:91:00.0 eth0", hosts.Wrong, hosts.Information)}, ready},
		{"slow", []hosts.Finding{finding("0000:91:00.0 eth0 mlx5_0", hosts.Wrong, hosts.Performance)}, slow},
		{"two", []hosts.Finding{finding("0000:91:00.0", hosts.Wrong, hosts.Functional), finding("0000:91:00.0 a", hosts.Wrong, hosts.Performance)}, both},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			want := map[string]status.Answer{slicecodec.NICName(mine): tc.want, slicecodec.NICName(other): ready}
			if diff := cmp.Diff(want, answers(tc.findings, []model.NIC{mine, other, {}})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReasonsAreThoseOfConditions(t *testing.T) {
	legal := regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`) // metav1.Condition
	for _, c := range doctor.Checks() {
		if !legal.MatchString(reason(c.Name)) {
			t.Errorf("%s: the API server refuses reason %q", c.Name, reason(c.Name))
		}
	}
}

func TestAnswersAreToldWhenSeenTwice(t *testing.T) {
	n := nicAt("0000:91:00.0")
	bad := hosts.Report{Findings: []hosts.Finding{{Check: "links", Subject: "0000:91:00.0", Verdict: hosts.Wrong, Severity: hosts.Functional}}}
	var told []metav1.ConditionStatus
	d := Devices{Tell: func(a map[string]status.Answer) { told = append(told, a[slicecodec.NICName(n)].Status) }}
	for _, r := range []hosts.Report{{}, {}, bad, {}, bad, {}, {}, bad, bad, bad, {}, {}} {
		d.Looked(r, []model.NIC{n})
	}
	want := []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionTrue}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
