// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"plumbline.dev/plumbline/lab/controlplane"
)

// hyperkube is the program of a control plane.
func hyperkube(t testing.TB) string {
	t.Helper()
	return builtProgram(t, "hyperkube/*/hyperkube")
}

// builtProgram returns a program that an earlier plumblab built. Building one
// takes minutes, which is no part of a unit test; CI has built them all before.
func builtProgram(t testing.TB, path string) string {
	t.Helper()
	home, err := os.UserCacheDir()
	if err != nil {
		t.Skip("no cache folder:", err)
	}
	for _, root := range []string{"../../.cache", filepath.Join(home, "plumbline")} {
		found, err := filepath.Glob(filepath.Join(root, "store", path))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			program, err := filepath.Abs(found[0])
			if err != nil {
				t.Fatal(err)
			}
			return program
		}
	}
	lacks(t, filepath.Base(path)+" is not built: run plumblab build")
	return ""
}

// lacks skips a test that cannot run here, and fails it in CI, which must have everything.
func lacks(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI must have it: %s", why)
	}
	t.Skip(why)
}

// needsCompiler is for tests of what runs over the stand-in for NVIDIA's library.
func needsCompiler(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		lacks(t, fmt.Sprintf("the stand-in for NVML is C: %v; install gcc and libc6-dev", err))
	}
}

func TestUpAndDown(t *testing.T) {
	config := controlplane.Config{Hyperkube: hyperkube(t), Dir: t.TempDir()}
	t.Cleanup(func() {
		if err := controlplane.Down(context.Background(), config.Dir); err != nil {
			t.Error(err)
		}
	})
	first, err := controlplane.Up(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	second, err := controlplane.Up(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if first.Server() != second.Server() {
		t.Errorf("a second Up moved from %s to %s", first.Server(), second.Server())
	}

	restConfig, err := clientcmd.BuildConfigFromFlags("", first.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(restConfig)
	// Versions the field's manifests use are served.
	for _, version := range []string{"v1", "v1beta1", "v1beta2"} {
		if _, err := client.Discovery().ServerResourcesForGroupVersion("resource.k8s.io/" + version); err != nil {
			t.Errorf("resource.k8s.io/%s: %v", version, err)
		}
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}

	if err := controlplane.Down(t.Context(), config.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := controlplane.Find(config.Dir); !errors.Is(err, controlplane.ErrDown) {
		t.Errorf("Find after Down = %v", err)
	}
	if response, err := http.Get(first.Server()); err == nil {
		_ = response.Body.Close()
		t.Errorf("%s still answers", first.Server())
	}
}
