// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
)

func TestUnmirrored(t *testing.T) {
	asks := func(init bool, cpu string, claims ...string) kube.Container {
		return kube.Container{Init: init, Claims: claims, Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	records := []driver.Record{agenttest.RecordOf("dra.cpu", "a", "trainer-uid", "cpudevnuma000"), agenttest.RecordOf("dra.cpu", "b", "trainer-uid", "cpudevnuma000")}
	for _, test := range []struct {
		name       string
		containers []kube.Container
		want       string
	}{
		{"one container for both", []kube.Container{asks(false, "4", "a", "b")}, ""},
		{"a container each", []kube.Container{asks(false, "3", "a"), asks(false, "1", "b"), asks(false, "2")}, ""},
		{"at pod level", []kube.Container{asks(false, "3"), asks(false, "1")}, ""},
		{"in turn", []kube.Container{asks(true, "4", "a", "b"), asks(false, "2500m", "a"), asks(false, "1500m", "b")}, ""},
		{"the init container most", []kube.Container{asks(true, "4", "a", "b"), asks(false, "1", "a")}, ""},
		{
			"nothing", []kube.Container{{Claims: []string{"a", "b"}}, asks(false, "4")},
			"the claims of pod default/trainer give it 4 CPUs, and its containers that name them request 0: the node looks emptier than it is; want resources.requests.cpu: 4",
		},
		{"too little", []kube.Container{asks(false, "500m", "a", "b")}, "request 500m: the node looks emptier"},
		{"too much", []kube.Container{asks(false, "8", "a", "b")}, "request 8, of which they can use no more"},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := &kube.Pod{Namespace: "default", Name: "trainer", Containers: test.containers}
			got := unmirrored(facts, records, driver.Pin{CPUs: cpuset.New(0, 1, 2, 3)})
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestOneEventAPod(t *testing.T) {
	var w warned
	if !w.first("a") || w.first("a") || !w.first("b") {
		t.Error("want one event for each of a and b")
	}
	w.drop("a")
	if !w.first("a") {
		t.Error("a pod that has gone is remembered")
	}
}

func TestKeepForgetsPodsThatWent(t *testing.T) {
	r := NewReconciler(Options{})
	for _, pod := range []types.UID{"stays", "went"} {
		r.warned.first(pod)
	}
	r.Keep([]*api.PodSandbox{{Uid: "stays"}}, nil)
	if r.warned.first("stays") || !r.warned.first("went") {
		t.Error("want the pod that went forgotten, and no other")
	}
}
