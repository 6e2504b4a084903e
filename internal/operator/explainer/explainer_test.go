// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain"
	"plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/golden"
	"plumbline.dev/plumbline/internal/metrics"
)

// began is when the pods of the tests were made.
var began = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// fixture is a cluster of two A3 Ultra with an explainer, and the events that it sent.
type fixture struct {
	*explainer
	t      *testing.T
	client *fake.Clientset
	at     time.Time
	// sent are its events, each "namespace/pod text".
	sent []string
}

func newFixture(t *testing.T, more ...runtime.Object) *fixture {
	t.Helper()
	s := explaintest.A3(t, 2)
	objects := more
	for _, slice := range s.Slices {
		objects = append(objects, slice)
	}
	for _, class := range s.Classes {
		objects = append(objects, class)
	}
	c := &fixture{t: t, client: fake.NewClientset(objects...), at: began}
	c.client.Resources = []*metav1.APIResourceList{{
		GroupVersion: resourceapi.SchemeGroupVersion.String(), APIResources: []metav1.APIResource{{Name: "devicetaintrules"}},
	}}
	watched, err := newObjects(c.client)
	if err != nil {
		t.Fatal(err)
	}
	if !watched.run(t.Context()) {
		t.Fatal("the caches were not filled")
	}
	c.explainer = &explainer{
		objects: watched, minor: allocation.NewestMinor, gates: allocation.DefaultGates(allocation.NewestMinor), metrics: metrics.NewExplainer(),
		schedule: retrySchedule{now: func() time.Time { return c.at }},
		events:   flowcontrol.NewFakeAlwaysRateLimiter(),
		confirm:  func(ctx context.Context, s *explain.Subject) (bool, error) { return confirm(ctx, c.client, s) },
		notify:   func(p *corev1.Pod, text string) { c.sent = append(c.sent, p.Namespace+"/"+p.Name+" "+text) },
	}
	return c
}

// after lets time go by, looks, and returns what was told since.
func (c *fixture) after(d time.Duration) string {
	c.t.Helper()
	c.at, c.sent = c.at.Add(d), nil
	c.evaluateDue(c.t.Context())
	return strings.Join(c.sent, "\n")
}

// settled waits until a condition holds of what is watched.
func settled(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 5000 {
		if holds() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%s is not seen", what)
}

// waiting is a pod whose claim of that name the scheduler cannot allocate.
func waiting(name, claim string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(began),
	}}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: &claim}}
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(began),
	}}
	for _, f := range change {
		f(p)
	}
	return p
}

// pair wants a number of GPUs and of NICs below one PCIe root.
func pair(name string, n int64) *resourceapi.ResourceClaim {
	return explaintest.Claim(name, []resourceapi.DeviceConstraint{explaintest.Match("resource.kubernetes.io/pcieRoot")},
		explaintest.Request("gpu", "gpu.nvidia.com", n), explaintest.Request("nic", "mrdma.google.com", n))
}

// train has all NICs of a node but the last.
func train(name, namespace, node string) *resourceapi.ResourceClaim {
	var held []snapshot.DeviceID
	for _, nic := range explaintest.A3NICs {
		held = append(held, snapshot.DeviceID{Driver: "dra.net", Pool: node, Device: nic})
	}
	c := explaintest.Holding(name, held...)
	c.Namespace = namespace
	return c
}

// What pods are told.
func TestTexts(t *testing.T) {
	cordoned := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a3-ultragpu-8g-1"}, Spec: corev1.NodeSpec{Unschedulable: true}}
	hostile := pair("hostile", 1)
	hostile.Spec.Devices.Requests[0].Exactly.Selectors = explaintest.Selectors("device.driver == \"x\\n\\u001b[2J\"\n|| false")
	long := pair("long", 1)
	long.Spec.Devices.Requests[1].Exactly.Selectors = explaintest.Selectors("device.driver == \"" + strings.Repeat("längst ", 300) + "\"")
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pairs"}}
	for _, tc := range []struct {
		name    string
		pod     *corev1.Pod
		objects []runtime.Object
	}{
		{"no-node-has-it", waiting("trainer", "four"), []runtime.Object{pair("four", 4)}},
		{"held", waiting("trainer", "one"), []runtime.Object{
			pair("one", 1), train("a", "default", "a3-ultragpu-8g-0"), train("b", "default", "a3-ultragpu-8g-1")}},
		{"held-by-strangers", waiting("trainer", "one"), []runtime.Object{
			pair("one", 1), train("secret-a", "strangers", "a3-ultragpu-8g-0"), train("secret-b", "strangers", "a3-ultragpu-8g-1")}},
		{"held-and-cordoned", waiting("trainer", "one"), []runtime.Object{pair("one", 1), train("a", "default", "a3-ultragpu-8g-0"), cordoned}},
		{"tainted", waiting("trainer", "one"), []runtime.Object{pair("one", 1), &resourceapi.DeviceTaintRule{
			ObjectMeta: metav1.ObjectMeta{Name: "repairs"},
			Spec: resourceapi.DeviceTaintRuleSpec{
				DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: ptr.To("dra.net")},
				Taint:          resourceapi.DeviceTaint{Key: "fabric", Value: "down", Effect: resourceapi.DeviceTaintEffectNoSchedule},
			},
		}}},
		{"claim-absent", waiting("trainer", "fuor"), []runtime.Object{pair("four", 1)}},
		{"template-absent", waiting("trainer", "", func(p *corev1.Pod) {
			name := "pair"
			p.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "devices", ResourceClaimTemplateName: &name}
			p.Status.Conditions = nil
		}), []runtime.Object{template}},
		{"class-absent", waiting("trainer", "typo"), []runtime.Object{explaintest.Claim("typo", nil, explaintest.Request("gpu", "gpu.nvidia.co", 1))}},
		{"hostile", waiting("trainer", "hostile"), []runtime.Object{hostile}},
		{"long", waiting("trainer", "long"), []runtime.Object{long}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newFixture(t, append(tc.objects, tc.pod)...)
			text := strings.TrimPrefix(c.after(patience), "default/trainer ")
			if text == "" || len(text) > maxNote || strings.ContainsAny(text, "\n\x1b") || strings.Contains(text, "secret") || strings.Contains(text, "strangers") {
				t.Errorf("%d bytes: %q", len(text), text)
			}
			assertSentences(t, tc.name, text)
		})
	}
}

// A pod whose claim compares what its release of NVIDIA's driver does not publish is told
// so, with the release that does and the claim that works.
func TestReleaseOfNVIDIA(t *testing.T) {
	claim := explaintest.Claim("near", []resourceapi.DeviceConstraint{explaintest.Match("resource.kubernetes.io/numaNode")},
		explaintest.Request("gpu", "gpu.nvidia.com", 1), explaintest.Request("nic", "mrdma.google.com", 1), explaintest.Request("cpu", "dra.cpu", 1))
	c := newFixture(t, waiting("trainer", "near"), claim)
	text, err := os.ReadFile("../../model/slicecodec/testdata/nvidia/nvidia-0.4.1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var recorded resourceapi.ResourceSlice
	if err := yaml.UnmarshalStrict(text, &recorded); err != nil {
		t.Fatal(err)
	}
	served := c.client.ResourceV1().ResourceSlices()
	all, err := served.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := c.objects.revision.Load()
	for i := range all.Items {
		if slice := &all.Items[i]; slice.Spec.Driver == recorded.Spec.Driver {
			slice.Spec.Devices, slice.ResourceVersion = recorded.Spec.Devices, "2"
			if _, err := served.Update(t.Context(), slice, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	settled(t, "the older driver", func() bool { return c.objects.revision.Load() >= before+2 })
	assertSentences(t, "nvidia-0.4.1", strings.TrimPrefix(c.after(patience), "default/trainer "))
}

// assertSentences compares a text, one sentence a line.
func assertSentences(t *testing.T, name, text string) {
	t.Helper()
	path := "testdata/" + name + ".txt"
	got := strings.NewReplacer(". ", ".\n", "? ", "?\n", "… ", "…\n").Replace(text) + "\n"
	golden.Assert(t, path, got)
}

// Pods that wait for something else, or for nothing, hear nothing.
func TestSilence(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		claims []runtime.Object
	}{
		"scheduled":            {change: func(p *corev1.Pod) { p.Spec.NodeName = "a3-ultragpu-8g-0" }},
		"going":                {change: func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: began}, []string{"x"} }},
		"gated":                {change: func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "queue"}} }},
		"gated by its word":    {change: func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated }},
		"placed":               {change: func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue }},
		"ended":                {change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }},
		"without claims":       {change: func(p *corev1.Pod) { p.Spec.ResourceClaims = nil }},
		"kept away by itself":  {change: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "none"} }},
		"its claim fits":       {claims: []runtime.Object{pair("four", 1)}},
		"its claim has it all": {claims: []runtime.Object{named(train("x", "default", "a3-ultragpu-8g-0"), "four")}},
	} {
		t.Run(name, func(t *testing.T) {
			claims := tc.claims
			if claims == nil {
				claims = []runtime.Object{pair("four", 4)}
			}
			var nodes []runtime.Object
			for i := range 2 {
				nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("a3-ultragpu-8g-%d", i), Labels: map[string]string{"pool": "gpu"}}})
			}
			change := tc.change
			if change == nil {
				change = func(*corev1.Pod) {}
			}
			c := newFixture(t, append(append(nodes, claims...), waiting("trainer", "four", change))...)
			if sent := c.after(time.Hour); sent != "" {
				t.Errorf("it hears: %s", sent)
			}
		})
	}
}

func named(c *resourceapi.ResourceClaim, name string) *resourceapi.ResourceClaim {
	c.Name = name
	return c
}

// The scheduler has its turn first, and some time.
func TestPatience(t *testing.T) {
	c := newFixture(t, pair("four", 4), waiting("trainer", "four"), waiting("unseen", "four", func(p *corev1.Pod) { p.Status.Conditions = nil }))
	for _, step := range []struct {
		after time.Duration
		hears string
	}{{settle - time.Second, ""}, {time.Second, "trainer"}, {patience - settle - time.Second, ""}, {time.Second, "unseen"}} {
		sent := c.after(step.after)
		heard, _, _ := strings.Cut(strings.TrimPrefix(sent, "default/"), " ")
		if heard != step.hears || len(c.sent) > 1 {
			t.Errorf("after %s: %q, want that %q hears", c.at.Sub(began), sent, step.hears)
		}
	}
}

// The same is not told again before it is forgotten, and something else not at
// once.
func TestNews(t *testing.T) {
	c := newFixture(t, pair("one", 1), train("a", "default", "a3-ultragpu-8g-0"), train("b", "default", "a3-ultragpu-8g-1"), waiting("trainer", "one"))
	if sent := c.after(settle); !strings.Contains(sent, "free claim default/a") {
		t.Fatalf("sent %q", sent)
	}
	if sent := c.after(10 * time.Minute); sent != "" {
		t.Errorf("nothing has changed, and it hears %q", sent)
	}
	revision := c.objects.revision.Load()
	if err := c.client.ResourceV1().ResourceClaims("default").Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	settled(t, "the claim's end", func() bool { return c.objects.revision.Load() > revision })
	if sent := c.after(time.Second); sent != "" {
		t.Errorf("the claim fits now, and it hears %q", sent)
	}
	revision = c.objects.revision.Load()
	if _, err := c.client.ResourceV1().ResourceClaims("default").Create(t.Context(), train("c", "default", "a3-ultragpu-8g-1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.client.ResourceV1().ResourceClaims("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.client.ResourceV1().ResourceClaims("default").Create(t.Context(), train("d", "default", "a3-ultragpu-8g-0"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	settled(t, "three changes", func() bool { return c.objects.revision.Load() >= revision+3 })
	if sent := c.after(evaluateInterval); !strings.Contains(sent, "free claim default/d") {
		t.Errorf("others hold the devices, and it hears %q", sent)
	}
	if sent := c.after(repeatInterval - time.Second); sent != "" {
		t.Errorf("nothing has changed, and it hears %q", sent)
	}
	if sent := c.after(time.Second); !strings.Contains(sent, "free claim default/d") {
		t.Errorf("the event is soon forgotten, and it hears %q", sent)
	}
}

// News that come too soon after an event are told later, also if nothing changes
// any more.
func TestNewsTooSoon(t *testing.T) {
	c := newFixture(t, pair("one", 1), train("a", "default", "a3-ultragpu-8g-0"), train("b", "default", "a3-ultragpu-8g-1"), waiting("trainer", "one"))
	if sent := c.after(settle); sent == "" {
		t.Fatal("nothing sent")
	}
	revision := c.objects.revision.Load()
	claims := c.client.ResourceV1().ResourceClaims("default")
	if err := claims.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := claims.Create(t.Context(), train("d", "default", "a3-ultragpu-8g-0"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	settled(t, "both changes", func() bool { return c.objects.revision.Load() >= revision+2 })
	if sent := c.after(evaluateInterval); sent != "" {
		t.Errorf("a minute after an event it hears %q", sent)
	}
	if sent := c.after(notifyInterval - evaluateInterval); !strings.Contains(sent, "default/d") {
		t.Errorf("it hears %q", sent)
	}
}

// Whatever is not as it was judged is not told.
func TestConfirmed(t *testing.T) {
	for name, change := range map[string]func(*fixture) error{
		"the pod is gone": func(c *fixture) error {
			return c.client.CoreV1().Pods("default").Delete(c.t.Context(), "trainer", metav1.DeleteOptions{})
		},
		"another pod of the name": func(c *fixture) error {
			_, err := c.client.CoreV1().Pods("default").Update(c.t.Context(), waiting("trainer", "four", func(p *corev1.Pod) { p.UID = "other" }), metav1.UpdateOptions{})
			return err
		},
		"the pod is scheduled": func(c *fixture) error {
			_, err := c.client.CoreV1().Pods("default").Update(c.t.Context(), waiting("trainer", "four", func(p *corev1.Pod) { p.Spec.NodeName = "n" }), metav1.UpdateOptions{})
			return err
		},
		"the claim is gone": func(c *fixture) error {
			return c.client.ResourceV1().ResourceClaims("default").Delete(c.t.Context(), "four", metav1.DeleteOptions{})
		},
		"the claim is allocated": func(c *fixture) error {
			claim := pair("four", 4)
			claim.Status.Allocation = &resourceapi.AllocationResult{}
			_, err := c.client.ResourceV1().ResourceClaims("default").UpdateStatus(c.t.Context(), claim, metav1.UpdateOptions{})
			return err
		},
		"the API server does not say": func(c *fixture) error {
			c.confirm = func(context.Context, *explain.Subject) (bool, error) { return false, errors.New("away") }
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFixture(t, pair("four", 4), waiting("trainer", "four"))
			ask := c.confirm
			c.confirm = func(ctx context.Context, s *explain.Subject) (bool, error) {
				c.confirm = ask
				if err := change(c); err != nil {
					t.Fatal(err)
				}
				return c.confirm(ctx, s)
			}
			if sent := c.after(settle); sent != "" {
				t.Errorf("it hears %q", sent)
			}
		})
	}
}

// Of many pods each has its turn, a few at a time, and a job's pods cost one
// answer.
func TestManyPods(t *testing.T) {
	const n = 50
	objects := []runtime.Object{}
	for i := range n {
		name := fmt.Sprintf("trainer-%02d", i)
		objects = append(objects, pair(name+"-x7", 4), waiting(name, "", func(p *corev1.Pod) {
			made, template := name+"-x7", "pairs"
			p.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "devices", ResourceClaimTemplateName: &template}
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "devices", ResourceClaimName: &made}}
		}))
	}
	c := newFixture(t, objects...)
	c.events = &bucket{left: 20}
	heard := map[string]bool{}
	for range 3 {
		sent := c.after(evaluateInterval)
		if len(c.sent) > 20 {
			t.Errorf("%d events at once", len(c.sent))
		}
		for line := range strings.Lines(sent) {
			pod, _, _ := strings.Cut(line, " ")
			if heard[pod] {
				t.Errorf("%s hears it again", pod)
			}
			heard[pod] = true
		}
		c.events = &bucket{left: 20}
	}
	if len(heard) != n {
		t.Errorf("%d of %d pods heard", len(heard), n)
	}
	r := c.startPass()
	for _, turn := range c.schedule.pods {
		if _, err := r.explain(t.Context(), r.subject(turn.pod)); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.answers) != 1 {
		t.Errorf("%d answers for pods that ask for the same", len(r.answers))
	}
}

// bucket lets some events through.
type bucket struct {
	flowcontrol.PassiveRateLimiter
	left int
}

func (b *bucket) TryAccept() bool {
	b.left--
	return b.left >= 0
}
