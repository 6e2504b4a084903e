// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package falsepositive

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

func claim(pod string, status metav1.ConditionStatus) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod + "-devices-x", Namespace: namespace, UID: types.UID(pod),
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: pod, Controller: ptr.To(true)}},
		},
		Status: resourceapi.ResourceClaimStatus{Devices: []resourceapi.AllocatedDeviceStatus{{Conditions: []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionFalse},
			{Type: "Aligned", Status: metav1.ConditionFalse, Reason: "FartherThanPossible"},
			{Type: "AsClaimed", Status: status, Reason: "CPUsWrong", Message: "CPUs 3"},
		}}}},
	}
}

func TestWatcherHears(t *testing.T) {
	client := fake.NewClientset(claim("before", metav1.ConditionTrue), claim("bad", metav1.ConditionFalse))
	w, err := Watch(t.Context(), client, namespace)
	if err != nil {
		t.Fatal(err)
	}
	claims := client.ResourceV1().ResourceClaims(namespace)
	if _, err := claims.Create(t.Context(), claim("later", metav1.ConditionUnknown), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, reason := range map[string]string{"a": "Misaligned", "b": "AsClaimed", "c": "FailedMount"} {
		e := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: namespace},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "pod-" + name}, Reason: reason, Message: "it is said",
		}
		if _, err := client.CoreV1().Events(namespace).Create(t.Context(), e, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := claims.Update(t.Context(), claim("later", metav1.ConditionTrue), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 500 { // an informer is notified soon, at no set time
		w.mu.Lock()
		enough := len(w.alarms) >= 2 && len(w.statuses[metav1.ConditionTrue]) >= 2
		w.mu.Unlock()
		if enough {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	reports := w.Stop()
	if reports.AsClaimed != 2 || reports.Unknown != 1 || len(reports.Alarms) != 2 {
		t.Fatalf("reports %+v", reports)
	}
	for i, want := range []string{"bad: condition AsClaimed False CPUsWrong: CPUs 3", "pod-a: event Misaligned: it is said"} {
		if got := reports.Alarms[i].String(); got != want {
			t.Errorf("alarm %d is %q, want %q", i, got, want)
		}
	}
}

func TestEveryKindHasItsTurn(t *testing.T) {
	count := map[kind]int{}
	withCPU := map[kind]int{}
	numbers := map[int]bool{}
	for lane, lives := range plan(7, 256, 4) {
		for _, l := range lives {
			count[l.kind]++
			numbers[l.number] = true
			if l.cpu {
				withCPU[l.kind]++
			}
			if l.cpu != (lane == 0) || l.runsFor < 0 || l.runsFor > maxRunsFor {
				t.Errorf("lane %d: %+v", lane, l)
			}
		}
	}
	for _, k := range kinds {
		if count[k] != 32 || withCPU[k] != 8 {
			t.Errorf("a pod that %s comes %d times, %d with CPUs; want 32 and 8", k, count[k], withCPU[k])
		}
	}
	if len(numbers) != 256 {
		t.Errorf("%d numbers, want 256", len(numbers))
	}
}

func TestSummary(t *testing.T) {
	good := summary{pods: 40, reports: Reports{AsClaimed: 30}, verified: verifyCounts{verifications: 20}}
	for name, tt := range map[string]struct {
		change func(*summary)
		want   string
	}{
		"well":            {func(*summary) {}, ""},
		"an alarm":        {func(t *summary) { t.reports.Alarms = []Alarm{{"short-1", "event"}} }, "short-1: event"},
		"counted alone":   {func(t *summary) { t.verified.misaligned = 2 }, "counts 2 misaligned"},
		"no verification": {func(t *summary) { t.verified.verifications = 0 }, "verified 0 times"},
		"none as claimed": {func(t *summary) { t.reports.AsClaimed = 0 }, "reported 0 pods as claimed"},
	} {
		got := good
		tt.change(&got)
		var out strings.Builder
		err := got.write(&out)
		if (err != nil) != (tt.want != "") || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

func TestParseVerifyCounts(t *testing.T) {
	got := parseVerifyCounts("# HELP x\nplumbline_agent_verify_seconds_count 17\nplumbline_agent_verify_seconds_sum 0.5\n" +
		"plumbline_agent_misalignments_total{reason=\"CPUsWrong\"} 2\nplumbline_agent_misalignments_total{reason=\"MemoryWide\"} 1\n")
	if want := (verifyCounts{verifications: 17, misaligned: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
