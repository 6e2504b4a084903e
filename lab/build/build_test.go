// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What progress lines and version flags say is what the modules pin.
func TestVersionsAreThosePinned(t *testing.T) {
	for file, want := range map[string]string{
		"hyperkube/go.mod":  "k8s.io/kubernetes " + KubernetesVersion,
		"containerd/go.mod": "github.com/containerd/containerd/v2 " + ContainerdVersion,
		"runc/go.mod":       "github.com/opencontainers/runc " + RuncVersion,
		"cni/go.mod":        "github.com/containernetworking/plugins " + CNIVersion,
		"dranet/go.mod":     "sigs.k8s.io/dranet " + DRANETVersion,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want+" ") && !strings.Contains(string(text), want+"\n") {
			t.Errorf("%s does not pin %s", file, want)
		}
	}
}

// Kubernetes' staging modules must all be of its own release.
func TestReplacesAreOfOneRelease(t *testing.T) {
	text, err := os.ReadFile("hyperkube/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	staging := " v0" + strings.TrimPrefix(KubernetesVersion, "v1")
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "=>") && !strings.HasSuffix(strings.TrimSpace(line), staging) {
			t.Errorf("want%s: %s", staging, line)
		}
	}
}

func TestSource(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Source(filepath.Join(root, "lab", "build")); err != nil || got != root {
		t.Errorf("Source = %s, %v; want %s", got, err, root)
	}
	if _, err := Source(t.TempDir()); err == nil || !strings.Contains(err.Error(), "--source") {
		t.Errorf("outside a checkout: %v", err)
	}
}
