// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifying

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// fixture is a node with a Verifier, and what it told.
type fixture struct {
	*Verifier
	node   *verifytest.Node
	client *fake.Clientset
	pods   []*corev1.Pod
	// events are "reason message" lines, conditions by claim.
	events     []string
	conditions map[types.UID]string
	pauses     int
	paused     func()
}

func newFixture(t testing.TB, machine string) *fixture {
	t.Helper()
	n := verifytest.NewNode(t, machine)
	s := &fixture{node: n, client: fake.NewClientset(), conditions: map[types.UID]string{}}
	s.Verifier = New(Options{
		Node: n.Name, Interval: time.Second, Client: s.client, Machine: func() *model.Machine { return n.Machine }, Kernel: n.Reader(t),
		Pods: func() []*corev1.Pod { return s.pods },
		Listeners: Listeners{
			Event: func(namespace string, pod driver.PodRef, warning bool, reason, message string) {
				s.events = append(s.events, fmt.Sprintf("%t %s/%s %s %s", warning, namespace, pod.Name, reason, message))
			},
			Condition: func(claim types.UID, a *status.Alignment) {
				if a == nil {
					delete(s.conditions, claim)
					return
				}
				s.conditions[claim] = fmt.Sprintf("%s %s %s\nAligned %s %s %s", a.AsClaimed.Status, a.AsClaimed.Reason, a.AsClaimed.Message,
					a.Aligned.Status, a.Aligned.Reason, a.Aligned.Message)
			},
		},
	})
	s.sleep = func(context.Context, time.Duration) error {
		s.pauses++
		if s.paused != nil {
			s.paused()
		}
		return nil
	}
	return s
}

// start runs a pod with a claim.
func (s *fixture) start(t testing.TB, name string, gpus, nics []int, cpus cpuset.CPUSet) (*verifytest.Pod, verifytest.AllocatedPod) {
	t.Helper()
	p := s.node.NewPod(name)
	allocated := s.node.Give(p, verifytest.Ours(), gpus, nics, cpus)
	s.node.Write(t, p)
	if _, err := s.client.ResourceV1().ResourceClaims(p.Namespace).Create(t.Context(), allocated.Claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range allocated.Slices {
		// The first pod brings them.
		_, _ = s.client.ResourceV1().ResourceSlices().Create(t.Context(), &allocated.Slices[i], metav1.CreateOptions{})
	}
	s.pods = append(s.pods, allocated.Pod)
	return p, allocated
}

func TestTellsWhatChanges(t *testing.T) {
	s := newFixture(t, "a3-ultragpu-8g")
	p, allocated := s.start(t, "train", []int{0}, []int{0}, cpuset.New(4, 5))
	for range 3 {
		s.Once(t.Context())
	}
	claim := allocated.Claim.UID
	if len(s.events) != 0 || !strings.HasPrefix(s.conditions[claim], "True AsClaimed ") {
		t.Fatalf("aligned: events %q, conditions %q", s.events, s.conditions)
	}
	good := p.Mems
	p.Mems = cpuset.New(0, 1)
	s.node.Write(t, p)
	for range 3 {
		s.Once(t.Context())
	}
	if len(s.events) != 1 || !strings.HasPrefix(s.events[0], "true default/train Misaligned memory of container main is beside its CPUs: memory of node 0-1") {
		t.Fatalf("misaligned: events %q", s.events)
	}
	if !strings.HasPrefix(s.conditions[claim], "False MemoryWide ") {
		t.Errorf("conditions %q", s.conditions)
	}
	p.Mems = good
	s.node.Write(t, p)
	s.Once(t.Context())
	if len(s.events) != 2 || !strings.HasPrefix(s.events[1], "false default/train AsClaimed ") || !strings.HasPrefix(s.conditions[claim], "True ") {
		t.Errorf("aligned again: events %q, conditions %q", s.events, s.conditions)
	}
	reads := 0
	for _, a := range s.client.Actions() {
		if a.GetVerb() == "get" || a.GetVerb() == "list" {
			reads++
		}
	}
	if reads != 2 {
		t.Errorf("%d questions to the API server, want one for the claim and one for the slices", reads)
	}
	s.pods = nil
	s.Once(t.Context())
	if len(s.conditions) != 0 {
		t.Errorf("of pods that are gone there is %q", s.conditions)
	}
}

// A pod that got what it claimed raises no alarm, however far apart its things
// are: the condition Aligned alone says so.
func TestFarIsNoAlarm(t *testing.T) {
	s := newFixture(t, "a3-ultragpu-8g")
	var counted []string
	s.Listeners.Misaligned = func(reason string) { counted = append(counted, reason) }
	s.verdicts.listeners = s.Listeners
	_, allocated := s.start(t, "far", []int{2}, []int{2}, cpuset.New(60, 61, 62, 63))
	for range 3 {
		s.Once(t.Context())
	}
	want := "True AsClaimed "
	far := "\nAligned False FartherThanPossible /dev/nvidia2 to main CPUs: SYS; the machine could have given NODE, " +
		"net0 to main CPUs: SYS; the machine could have given NODE"
	if c := s.conditions[allocated.Claim.UID]; !strings.HasPrefix(c, want) || !strings.HasSuffix(c, far) {
		t.Errorf("conditions %q, want %q and %q", c, want, far)
	}
	if len(s.events)+len(counted) != 0 || s.pauses != 0 {
		t.Errorf("%d pauses, events %q, counted %q", s.pauses, s.events, counted)
	}
	if got := s.answer(t, ""); got["far"] != "AsClaimed" {
		t.Errorf("the answer is %v", got)
	}
}

// What is wrong only for a moment, while a pod starts or ends, is nobody's
// business.
func TestMomentsAreNoAlarm(t *testing.T) {
	s := newFixture(t, "a3-ultragpu-8g")
	p, _ := s.start(t, "train", []int{0}, []int{0}, cpuset.New(4, 5))
	s.Once(t.Context())
	for name, during := range map[string]func(){
		"the NIC is on its way": func() { p.NICs = map[string]int{"net0": 0}; s.node.Write(t, p) },
		"the pod ends":          func() { s.node.Remove(t, p) },
		"the pod is deleted":    func() { s.pods[0].DeletionTimestamp = &metav1.Time{Time: time.Now()} },
	} {
		p.NICs = nil
		s.node.Write(t, p)
		s.pods[0].DeletionTimestamp = nil
		s.paused, s.pauses = during, 0
		s.Once(t.Context())
		if len(s.events) != 0 || s.pauses != 1 {
			t.Errorf("%s: %d pauses, events %q", name, s.pauses, s.events)
		}
		for claim, c := range s.conditions {
			if !strings.HasPrefix(c, "True ") {
				t.Errorf("%s: claim %s is %s", name, claim, c)
			}
		}
		s.paused = nil
		p.NICs = map[string]int{"net0": 0}
		s.node.Write(t, p)
		s.pods[0].DeletionTimestamp = nil
		s.Once(t.Context())
	}
}

// A soak in small: pods that come and go, each looked at in every state.
// Who asks while a pod starts or ends hears of no misalignment either, and waits
// for a second look only where the pods asked for seem to be misaligned.
func TestMomentsAreNoAnswer(t *testing.T) {
	s := newFixture(t, "a3-ultragpu-8g")
	p, _ := s.start(t, "train", []int{0}, []int{0}, cpuset.New(4, 5))
	s.start(t, "other", nil, []int{1}, cpuset.New())
	p.NICs = nil
	s.node.Write(t, p)
	s.paused = func() { p.NICs = map[string]int{"net0": 0}; s.node.Write(t, p) }
	if got := s.answer(t, "?pod=other"); got["other"] != "Aligned" || s.pauses != 0 {
		t.Errorf("%v after %d pauses", got, s.pauses)
	}
	if got := s.answer(t, ""); got["train"] != "Aligned" || got["other"] != "Aligned" || s.pauses != 1 {
		t.Errorf("%v after %d pauses", got, s.pauses)
	}
	p.NICs, s.paused = nil, nil
	s.node.Write(t, p)
	if got := s.answer(t, ""); got["train"] != "Misaligned" || got["other"] != "Aligned" {
		t.Errorf("without its NIC: %v", got)
	}
}

// answer is who has which verdict.
func (s *fixture) answer(t *testing.T, query string) map[string]string {
	t.Helper()
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, httptest.NewRequest("GET", Path+query, nil))
	var report verify.Report
	if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]string{}
	for _, p := range report.Pods {
		verdicts[p.Name] = p.Verdict
	}
	return verdicts
}

// A thread that ran outside and sleeps again is told by the next look, however
// often somebody asked in between.
func TestQuestionsHideNothing(t *testing.T) {
	s := newFixture(t, "a3-ultragpu-8g")
	p, _ := s.start(t, "train", []int{0}, []int{0}, cpuset.New(4, 5))
	s.Once(t.Context())
	p.Threads[1].CPU = 99
	p.Run()
	s.node.Tick(t, p)
	for range 2 {
		if got := s.answer(t, ""); got["train"] != "Misaligned" {
			t.Errorf("who asks hears %v", got)
		}
	}
	s.Once(t.Context())
	if len(s.events) != 1 || !strings.Contains(s.events[0], "1 did, such as thread") {
		t.Errorf("events %q", s.events)
	}
}

func TestCyclesWithoutAlarm(t *testing.T) {
	s := newFixture(t, "a3-ultragpu-8g")
	for cycle := range 40 {
		s.pods = nil
		p, allocated := s.start(t, fmt.Sprintf("short-%d", cycle), []int{cycle % 8}, []int{cycle % 8}, cpuset.New(4+cycle, 5+cycle))
		node := s.node.Machine.Function(s.node.Machine.GPUs[cycle%8].PCI).NUMANode
		cpus := s.node.NodeOf(node).CPUs.List()
		p.Pin(cpuset.New(cpus[4], cpus[5]), cpuset.New(*node))
		s.pods = nil
		again := s.node.Give(p, verifytest.Ours(), []int{cycle % 8}, []int{cycle % 8}, p.CPUs)
		again.Claim.Name = allocated.Claim.Name
		if _, err := s.client.ResourceV1().ResourceClaims(p.Namespace).Update(t.Context(), again.Claim, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.node.Write(t, p)
		s.pods = []*corev1.Pod{again.Pod}
		running := again.Pod.Status.ContainerStatuses
		again.Pod.Status.ContainerStatuses = nil // not started yet
		s.Once(t.Context())
		again.Pod.Status.ContainerStatuses = running
		s.Once(t.Context())
		if c := s.conditions[again.Claim.UID]; !strings.HasPrefix(c, "True ") {
			t.Fatalf("cycle %d: %s", cycle, c)
		}
		s.node.Remove(t, p) // and the API server does not say so yet
		s.Once(t.Context())
		s.pods = nil
		s.Once(t.Context())
	}
	if len(s.events) != 0 {
		t.Errorf("events %q", s.events)
	}
}

func TestAnswers(t *testing.T) {
	s := newFixture(t, "a3-ultragpu-8g")
	s.start(t, "train", []int{0}, []int{0}, cpuset.New(4, 5))
	s.start(t, "other", nil, []int{1}, cpuset.New())
	for query, want := range map[string]int{"": 2, "?namespace=default": 2, "?namespace=elsewhere": 0, "?namespace=default&pod=train": 1} {
		answer := httptest.NewRecorder()
		s.Handler().ServeHTTP(answer, httptest.NewRequest("GET", Path+query, nil))
		var report verify.Report
		if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
		if len(report.Pods) != want {
			t.Errorf("%q: %d pods, want %d", query, len(report.Pods), want)
		}
		for _, p := range report.Pods {
			if p.Verdict != "Aligned" {
				t.Errorf("%q: %s is %s: %s", query, p.Name, p.Verdict, p.Message)
			}
		}
	}
	if len(s.events)+len(s.conditions) != 0 {
		t.Errorf("who asks makes no events: %q, %q", s.events, s.conditions)
	}
	s.Machine = func() *model.Machine { return nil }
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, httptest.NewRequest("GET", Path, nil))
	if answer.Code != 503 {
		t.Errorf("without a machine: %d", answer.Code)
	}
}

// A GPU of a claim that the kubelet gave to another pod by a device plugin is found by the
// loop and on request.
func TestPluggedGPUs(t *testing.T) {
	s := newFixture(t, "a3-ultragpu-8g")
	s.start(t, "train-0", []int{0}, nil, cpuset.New())
	asked := 0
	var fails error
	s.Plugged = func(context.Context) ([]verify.Plugged, error) {
		asked++
		return []verify.Plugged{{Namespace: "team", Pod: "thief", Resource: "nvidia.com/gpu", PCI: s.node.Machine.GPUs[0].PCI}}, fails
	}
	s.Once(t.Context())
	if len(s.events) != 1 || !strings.Contains(s.events[0], "Misaligned no GPU serves a claim and a device plugin") || !strings.Contains(s.events[0], "team/thief") {
		t.Errorf("events %q", s.events)
	}
	fails = errors.New("kubelet.sock: no such file")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", Path, nil))
	if !strings.Contains(w.Body.String(), "kubelet.sock: no such file") || !strings.Contains(w.Body.String(), `"verdict":"A`) {
		t.Errorf("%s, want the pod as claimed, and the reason", w.Body.String())
	}
	before := asked
	s.pods = nil
	s.Once(t.Context())
	if asked != before {
		t.Error("the kubelet was asked although no claim has a GPU")
	}
}
