// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent/nodepods"
	"plumbline.dev/plumbline/internal/driver"
)

func TestUnmirrored(t *testing.T) {
	asks := func(init bool, cpu string, claims ...string) nodepods.Container {
		return nodepods.Container{Init: init, Claims: claims, Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	records := []driver.Record{recordOf("dra.cpu", "a", "trainer-uid", "cpudevnuma000"), recordOf("dra.cpu", "b", "trainer-uid", "cpudevnuma000")}
	for _, test := range []struct {
		name       string
		containers []nodepods.Container
		want       string
	}{
		{"one container for both", []nodepods.Container{asks(false, "4", "a", "b")}, ""},
		{"a container each", []nodepods.Container{asks(false, "3", "a"), asks(false, "1", "b"), asks(false, "2")}, ""},
		{"at pod level", []nodepods.Container{asks(false, "3"), asks(false, "1")}, ""},
		{"in turn", []nodepods.Container{asks(true, "4", "a", "b"), asks(false, "2500m", "a"), asks(false, "1500m", "b")}, ""},
		{"the init container most", []nodepods.Container{asks(true, "4", "a", "b"), asks(false, "1", "a")}, ""},
		{
			"nothing", []nodepods.Container{{Claims: []string{"a", "b"}}, asks(false, "4")},
			"the claims of pod default/trainer give it 4 CPUs, and its containers that name them request 0: the node looks emptier than it is; want resources.requests.cpu: 4",
		},
		{"too little", []nodepods.Container{asks(false, "500m", "a", "b")}, "request 500m: the node looks emptier"},
		{"too much", []nodepods.Container{asks(false, "8", "a", "b")}, "request 8, of which they can use no more"},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := &nodepods.Facts{Namespace: "default", Name: "trainer", Containers: test.containers}
			got := unmirrored(facts, records, driver.Pin{CPUs: cpuset.New(0, 1, 2, 3)})
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestPodsAreToldOnce(t *testing.T) {
	var w warned
	if !w.first("a") || w.first("a") || !w.first("b") {
		t.Error("want a and b told once each")
	}
	w.drop("a")
	if !w.first("a") {
		t.Error("a pod that has gone is remembered")
	}
}
