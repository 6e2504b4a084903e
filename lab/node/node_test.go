// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func guestConfig() GuestConfig {
	return GuestConfig{
		Name: "n1", Labels: map[string]string{"b": "2", "a": "1"},
		Hyperkube: "/store/hyperkube", Runc: "/store/runc", Containerd: "/store/containerd", CNI: "/store/cni",
		Images: "/store/images.tar", Sandbox: "plumbline.dev/lab/pause:latest",
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
	golden(t, "services.json", append(text, '\n'))
	golden(t, "containerd.toml", files["/etc/containerd/config.toml"].Content)
	golden(t, "cni.conflist", files["/etc/cni/net.d/10-lab.conflist"].Content)
	golden(t, "kubelet.yaml", files["/etc/kubernetes/kubelet.yaml"].Content)
	for _, name := range []string{"/usr/bin/hyperkube", "/usr/bin/runc", "/usr/bin/containerd", "/opt/cni/bin/ptp"} {
		if f := files[name]; f.Mode != 0o755 || f.Source == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (run with -update to accept):\n%s", path, diff)
	}
}
