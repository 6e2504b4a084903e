// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

// A node that gets another address keeps the link that owns it; an API server
// that is away changes nothing, and neither does the same answer.
func TestFollower(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.json")
	address, away := "", false
	client := fake.NewClientset()
	client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		if away {
			return true, nil, errors.New("away")
		}
		return true, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"at": address}},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
		}, nil
	})
	f := &AddressPoller{
		Client: client, Config: &rest.Config{Host: "https://192.0.2.9"}, Name: "n1", File: file,
		Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.9")},
	}
	var told []string
	var at []string
	f.Labels = func(now map[string]string) {
		at = append(at, now["at"])
		// An agent that is killed when it has heard starts by the same labels.
		if node, err := readNode(file, "n1"); err != nil || node.Labels["at"] != now["at"] {
			t.Errorf("heard %v, and %v is kept: %v", now, node, err)
		}
	}
	for _, step := range []struct {
		address string
		away    bool
		want    []string
	}{
		{"192.0.2.1", false, nil},
		{"192.0.2.2", true, nil},
		{"192.0.2.2", false, []string{"[192.0.2.2 192.0.2.9]"}},
		{"192.0.2.2", false, []string{"[192.0.2.2 192.0.2.9]"}},
	} {
		address, away = step.address, step.away
		f.ask(t.Context(), func(now []netip.Addr) { told = append(told, fmt.Sprint(now)) })
		if !slices.Equal(told, step.want) {
			t.Errorf("%+v: told %q", step, told)
		}
	}
	if node, err := readNode(file, "n1"); err != nil || node == nil || node.Status.Addresses[0].Address != "192.0.2.2" {
		t.Errorf("kept %+v, %v", node, err)
	}
	if want := []string{"192.0.2.1", "192.0.2.2"}; !slices.Equal(at, want) {
		t.Errorf("heard labels %q, want %q", at, want)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f.Run(ended, func([]netip.Addr) { t.Error("told after its end") })
}
