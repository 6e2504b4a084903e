// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// An agent that starts while the API server is away repairs pods all the same:
// what it needs to know of the node is on disk.
func TestNodeWhileTheAPIServerIsAway(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.json")
	away := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if away {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","labels":{"a":"b"}},
			"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}`))
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, now := range []bool{false, true} {
		away = now
		node, err := Node(t.Context(), client, "n1", file)
		if err != nil {
			t.Fatal(err)
		}
		if got := NeededAddresses(node, config); node.Labels["a"] != "b" || len(got) != 2 || got[0].String() != "192.0.2.1" {
			t.Errorf("away %t: labels %v, addresses %v; want those of the node", away, node.Labels, got)
		}
	}
	if other, err := readNode(file, "n2"); err != nil || other != nil {
		t.Errorf("another node: %v, %v; want nothing", other, err)
	}
}
