// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/kube"
)

// podsOf is an API watch that has shown these pods.
func podsOf(t testing.TB, list ...*corev1.Pod) kube.Pods {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{kube.PodsByUID: kube.IndexPodsByUID})
	for _, p := range list {
		if err := indexer.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	return kube.PodsFrom(indexer)
}

func podWith(name string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-pod")}}
	for _, c := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: c, ResourceClaimName: &c})
	}
	return p
}

// A record that cannot be read may say that the pod has a NIC, or that CPUs are
// taken: nothing starts that it may concern, what runs stays where it is, and
// what can be read is still brought back.
func TestUnreadableJournalFailsClosed(t *testing.T) {
	a, nic := connected(t, "/nowhere")
	dir := filepath.Join(t.TempDir(), "journal")
	records, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range a.preparers {
		p.Journal = records
	}
	prepared(t, a.preparers[0], agenttest.ClaimFor("good", "nic0"))
	prepared(t, a.preparers[1], agenttest.ClaimFor("cpus", "cpudevnuma001"))
	for _, name := range []string{"dra.net", "dra.cpu"} {
		if err := os.WriteFile(filepath.Join(dir, name, "bad-uid.json"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := a.hooks()
	h.pods = podsOf(t, podWith("plain"), podWith("claiming", "bad"), podWith("good", "good"))
	for name, refusal := range map[string]string{
		"plain": "", "good": "", "claiming": "bad-uid.json", "unknown": "the API server has not shown it",
	} {
		err := h.RunPodSandbox(t.Context(), podOf(name, "/run/netns/"+name))
		if (refusal == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), refusal) {
			t.Errorf("pod %s: got %v, want %q", name, err, refusal)
		}
	}
	container := &api.Container{Id: "c", PodSandboxId: "plain-sandbox", Name: "main", State: api.ContainerState_CONTAINER_RUNNING}
	if _, _, err := h.CreateContainer(t.Context(), podOf("plain", "/run/netns/plain"), container); err != nil {
		t.Errorf("create a container of a pod without claims: %v", err)
	}
	if _, _, err := h.CreateContainer(t.Context(), podOf("claiming", "/run/netns/claiming"), container); err == nil || !strings.Contains(err.Error(), "bad-uid.json") {
		t.Errorf("create a container of a pod whose claim may be in it: got %v, want a refusal that names the file", err)
	}
	updates, err := h.Synchronize(t.Context(), []*api.PodSandbox{podOf("plain", "")}, []*api.Container{container})
	if err != nil || len(updates) != 0 {
		t.Errorf("synchronise: %v, %v; want every container left where it is", updates, err)
	}
	if err := h.StopPodSandbox(t.Context(), podOf("good", "/run/netns/good")); err != nil {
		t.Error(err)
	}
	want := "attach good to /run/netns/good; detach good from /run/netns/good; detach good from /run/netns/good"
	if got := strings.Join(nic.Actions, "; "); got != want {
		t.Errorf("actions %q, want %q", got, want)
	}
}
