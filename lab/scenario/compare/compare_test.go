// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/fake"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

func TestMedians(t *testing.T) {
	var s sample
	for _, d := range []time.Duration{30, 10, 20} {
		s.add(0, Life{Ready: d, Back: d})
		s.add(8, Life{Ready: 10 * d, Back: 2 * d})
	}
	s.memory = []Memory{{Resident: 2, Proportional: 1}, {Resident: 6, Proportional: 3}}
	m := s.medians()
	if m.Ready[0] != 20 || m.Beyond(8) != 180 || m.Back[8] != 40 || m.Memory != (Memory{Resident: 4, Proportional: 2}) {
		t.Errorf("got %+v", m)
	}
	if got := median[time.Duration](nil); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
}

func TestParseLooks(t *testing.T) {
	got, err := parseLooks("1.5\n20\n")
	if err != nil || len(got) != 2 || got[0] != 1500*time.Microsecond || got[1] != 20*time.Millisecond {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseLooks("soon"); err == nil {
		t.Error("no error")
	}
}

// DRANET comes without a node to run on: Measure gives it one.
func TestDRANETIsOff(t *testing.T) {
	text, err := DRANETManifest("an/image:tag", "10.0.2.2", "6443", false)
	if err != nil {
		t.Fatal(err)
	}
	var set *appsv1.DaemonSet
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var next appsv1.DaemonSet
		if err := decoder.Decode(&next); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if next.Kind == "DaemonSet" {
			set = &next
		}
	}
	if set == nil || set.Namespace != DRANET.Namespace || set.Name != DRANET.DaemonSet {
		t.Fatalf("got %+v", set)
	}
	pod := set.Spec.Template.Spec
	if _, off := pod.NodeSelector[offLabel]; !off || pod.Containers[0].Image != "an/image:tag" {
		t.Errorf("node selector %v, image %s", pod.NodeSelector, pod.Containers[0].Image)
	}
	want := corev1.EnvVar{Name: "KUBERNETES_SERVICE_PORT", Value: "6443"}
	if pod.Containers[0].Env[2] != want {
		t.Errorf("environment %v", pod.Containers[0].Env)
	}
}

// An agent serves when it is ready and every NIC is published.
func TestServes(t *testing.T) {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: DRANET.Namespace, Name: DRANET.DaemonSet, Generation: 2}}
	set.Status = appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 1, NumberReady: 1, UpdatedNumberScheduled: 1}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	slice.Spec.Devices = []resourceapi.Device{{Name: "nic0"}}
	for name, test := range map[string]struct {
		nics   []string
		change func(*appsv1.DaemonSetStatus)
		want   bool
	}{
		"all published": {nics: []string{"nic0"}, want: true},
		"one missing":   {nics: []string{"nic0", "nic1"}},
		"not ready":     {nics: []string{"nic0"}, change: func(s *appsv1.DaemonSetStatus) { s.NumberReady = 0 }},
		"the last turn": {nics: []string{"nic0"}, change: func(s *appsv1.DaemonSetStatus) { s.ObservedGeneration = 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			set := set.DeepCopy()
			if test.change != nil {
				test.change(&set.Status)
			}
			r := &run{Config{Cluster: harness.Cluster{Client: fake.NewClientset(set, slice), Node: "host"}, NICs: test.nics}}
			if got, err := r.serves(t.Context(), DRANET); err != nil || got != test.want {
				t.Errorf("got %t, %v; want %t", got, err, test.want)
			}
		})
	}
}

func TestAway(t *testing.T) {
	r := &run{Config{NICs: []string{"nic0", "nic1"}, Links: func() ([]string, error) { return []string{"lo", "nic1"}, nil }}}
	if err := r.holds(1); err != nil {
		t.Error(err)
	}
	if err := r.holds(2); err == nil {
		t.Error("one that stayed on the host was not missed")
	}
}
