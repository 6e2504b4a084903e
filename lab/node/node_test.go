// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"testing"

	"plumbline.dev/plumbline/internal/golden"
)

func guestConfig() GuestConfig {
	return GuestConfig{
		Name: "n1", Labels: map[string]string{"b": "2", "a": "1"},
		Hyperkube: "/store/hyperkube", Runc: "/store/runc", Containerd: "/store/containerd", CNI: "/store/cni",
		Images: []string{"/store/images.tar"}, Sandbox: "plumbline.dev/lab/pause:latest",
		Kubeconfig: []byte("kubeconfig"), ClientCA: []byte("ca"), KubeletPort: 10250,
	}
}

// A reviewer reads in the golden files what runs on a node and how.
func TestGuest(t *testing.T) {
	files, services, err := Guest(guestConfig())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(services, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, "testdata/services.json", string(text)+"\n")
	golden.Assert(t, "testdata/containerd.toml", string(files["/etc/containerd/config.toml"].Content))
	golden.Assert(t, "testdata/cni.conflist", string(files["/etc/cni/net.d/10-lab.conflist"].Content))
	golden.Assert(t, "testdata/kubelet.yaml", string(files["/etc/kubernetes/kubelet.yaml"].Content))
	c := guestConfig()
	c.DNS = true
	named, _, err := Guest(c)
	if err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, "testdata/kubelet-dns.yaml", string(named["/etc/kubernetes/kubelet.yaml"].Content))
	for _, name := range []string{"/usr/bin/hyperkube", "/usr/bin/runc", "/usr/bin/containerd", "/opt/cni/bin/ptp"} {
		if f := files[name]; f.Mode != 0o755 || f.Source == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
