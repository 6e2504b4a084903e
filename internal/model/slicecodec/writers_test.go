// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package slicecodec

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWriters(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	by := func(name string, ago time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: name, Time: &metav1.Time{Time: now.Add(-ago)}}
	}
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		by("plumbline-agent", time.Hour), by("gpu-kubelet-plugin", time.Minute), by("gpu-kubelet-plugin", time.Second), {Manager: "timeless"}, {},
	}}}
	for since, want := range map[time.Time][]string{
		{}:                        {"gpu-kubelet-plugin", "plumbline-agent", "timeless"},
		now.Add(-time.Hour):       {"gpu-kubelet-plugin", "plumbline-agent"},
		now.Add(-5 * time.Minute): {"gpu-kubelet-plugin"},
		now:                       nil,
	} {
		if diff := cmp.Diff(want, Writers(s, since)); diff != "" {
			t.Errorf("since %s (-want +got):\n%s", since, diff)
		}
	}
}
