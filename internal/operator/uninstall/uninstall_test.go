// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	nets "plumbline.dev/plumbline/api/net/v1alpha1"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), hosts.AddToScheme(scheme), nets.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// claim is one that so many pods hold devices of drivers by; none is allocated and free.
func claim(name string, pods int, drivers ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}}
	for i := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: fmt.Sprintf("pod-%d", i)})
	}
	for i, driver := range drivers {
		if c.Status.Allocation == nil {
			c.Status.Allocation = &resourceapi.AllocationResult{}
		}
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Driver: driver, Pool: "n1", Device: fmt.Sprintf("d%d", i)})
	}
	return c
}

func TestRefuseHeld(t *testing.T) {
	many := make([]client.Object, 0, printed+2)
	for i := range printed + 2 {
		many = append(many, claim(fmt.Sprintf("c%02d", i), 1, "dra.net"))
	}
	tests := map[string]struct {
		claims []client.Object
		said   string
		err    string
	}{
		"none":                       {nil, "no pod holds a device\n", ""},
		"waits for a device":         {[]client.Object{claim("c", 0)}, "no pod holds a device\n", ""},
		"allocated, of no pod":       {[]client.Object{claim("c", 0, "dra.net")}, "no pod holds a device\n", ""},
		"of another driver":          {[]client.Object{claim("c", 1, "gpu.nvidia.com")}, "no pod holds a device\n", ""},
		"held, beside another's":     {[]client.Object{claim("c", 2, "gpu.nvidia.com", "dra.net")}, "claim team-a/c of pod pod-0, pod pod-1: dra.net n1/d1\n", "nothing was uninstalled: 1 claim of pods holds devices of dra.net, dra.cpu: end the pods first"},
		"more than are told by name": {many, "and 2 more\n", "nothing was uninstalled: 22 claims of pods hold devices of dra.net, dra.cpu: end the pods first"},
	}
	for name, tt := range tests {
		c := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(tt.claims...).Build()
		var said strings.Builder
		err := RefuseHeld(t.Context(), c, []string{"dra.net", "dra.cpu"}, &said)
		if tt.err == "" && err != nil || tt.err != "" && (!errors.Is(err, ErrHeld) || err.Error() != tt.err) {
			t.Errorf("%s: %v, want %q", name, err, tt.err)
		}
		if !strings.HasSuffix(said.String(), tt.said) || strings.Count(said.String(), "\n") > printed+1 {
			t.Errorf("%s: says %q, want %q", name, said.String(), tt.said)
		}
	}
}

// What policies set is put back by agents alone.
func TestRefusePolicies(t *testing.T) {
	policy := &hosts.HostPolicy{ObjectMeta: metav1.ObjectMeta{Name: "jumbo"}}
	report := func(policies ...hosts.PolicyResult) *hosts.HostReport {
		return &hosts.HostReport{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Report: hosts.Report{Policies: policies}}
	}
	for want, there := range map[string][]client.Object{
		"": {report()},
		"there are HostPolicies (jumbo): delete them first":                       {policy, report()},
		"agents have not put back yet what HostPolicies set on n1: wait a minute": {report(hosts.PolicyResult{Name: "jumbo", Applied: 1})},
		"there are NetworkAddressPools (fabric): delete them first":               {&nets.NetworkAddressPool{ObjectMeta: metav1.ObjectMeta{Name: "fabric"}}},
	} {
		c := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(there...).Build()
		err := RefuseHeld(t.Context(), c, []string{"dra.net"}, &strings.Builder{})
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A claim that cannot be looked at may be held.
func TestRefuseHeldWithoutAnswer(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(newScheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "", nil)
		},
	}).Build()
	if err := RefuseHeld(t.Context(), c, []string{"dra.net"}, &strings.Builder{}); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
}

func TestCleanup(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "plumbline-operator"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	set := func(ready int32) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "leave", Generation: 1},
			Status:     appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 2, NumberReady: ready},
		}
	}
	unseen := set(2)
	unseen.Status.ObservedGeneration = 0
	for name, tt := range map[string]struct {
		set  *appsv1.DaemonSet
		wait string
		err  error
	}{
		"clean":             {set(2), "leave", nil},
		"waits for none":    {set(0), "", nil},
		"a node is away":    {set(1), "leave", ErrHostsLeft},
		"not yet looked at": {unseen, "leave", ErrHostsLeft},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(lease.DeepCopy(), node.DeepCopy(), tt.set).Build()
			l := Leftovers{Namespace: "ns", Lease: "plumbline-operator", DaemonSet: tt.wait, Patience: time.Minute}
			var said strings.Builder
			for range 2 {
				if err := Cleanup(t.Context(), c, l, &said); !errors.Is(err, tt.err) {
					t.Errorf("%s: %v, want %v", name, err, tt.err)
				}
			}
			var left coordinationv1.Lease
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(lease), &left); !apierrors.IsNotFound(err) {
				t.Errorf("%s: the Lease: %v", name, err)
			}
			if clean := strings.Contains(said.String(), "2 of 2 hosts are clean"); clean != (name == "clean") {
				t.Errorf("%s: says %q", name, said.String())
			}
		})
	}
}
