// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/google/go-cmp/cmp"
)

// apiServer lists these pods and then has no news; nil: it is away.
func apiServer(t *testing.T, pods *corev1.PodList) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		switch {
		case pods == nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		case query.Has("sendInitialEvents"): // a list is asked for instead
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = json.NewEncoder(w).Encode(metav1.Status{Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
		case query.Has("watch"):
			<-r.Context().Done()
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(pods)
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func listOf(pods ...corev1.Pod) *corev1.PodList {
	return &corev1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: pods,
	}
}

func claiming(name, claim string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "7"},
		Spec: corev1.PodSpec{
			ResourceClaims: []corev1.PodResourceClaim{{Name: "nic", ResourceClaimName: &claim}},
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Claims: []corev1.ResourceClaim{{Name: "nic"}}, Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
			}}},
		},
	}
}

// waitFor waits until a condition is true.
func waitFor(t *testing.T, what string, true func() bool) {
	t.Helper()
	for range 500 {
		if true() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("waited in vain: %s", what)
}

// An agent that starts while the API server is away knows the pods that the one
// before it knew, and what it knows gives way to what the API server says.
func TestPodsWhileTheAPIServerIsAway(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods.json")
	first, err := WatchPods(t.Context(), apiServer(t, listOf(claiming("trainer", "nic0"))), "node", file)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the pods are kept", func() bool { _, err := os.Stat(file); return err == nil })
	want := first.Get("trainer-uid")
	if want == nil || !want.Named["nic0"] {
		t.Fatalf("facts %+v", want)
	}
	away, err := WatchPods(t.Context(), apiServer(t, nil), "node", file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, away.Get("trainer-uid")); diff != "" {
		t.Errorf("of a pod that an earlier agent knew (-want +got):\n%s", diff)
	}
	if got := away.Get("other-uid"); got != nil {
		t.Errorf("of a pod that nobody knew: %+v", got)
	}
	back, err := WatchPods(t.Context(), apiServer(t, listOf(claiming("next", "nic0"))), "node", file)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the API server's pods", func() bool { return back.Get("next-uid") != nil })
	waitFor(t, "the pod that is gone is forgotten", func() bool { return back.Get("trainer-uid") == nil })
	waitFor(t, "the file follows", func() bool {
		pods, err := readKept(file)
		return err == nil && len(pods) == 1 && pods["next-uid"].Name == "next"
	})
}

// What is on disk is read by the agents to come.
func TestKeptFormat(t *testing.T) {
	pod := claiming("trainer", "nic0")
	text, err := encodeKept([]any{&pod})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":1,"pods":[{"uid":"trainer-uid","namespace":"default","name":"trainer","claims":["nic0"],"named":{"nic0":true},` +
		`"containers":[{"name":"main","claims":["nic0"],"requests":{"cpu":"2"}}]}]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// A file that cannot be read, or of another version, is as good as none.
func TestKeptThatCannotBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods.json")
	for text, problem := range map[string]string{
		"": "unexpected end", "{": "unexpected end", "[]": "cannot unmarshal", `{"version":2,"pods":[{"uid":"a"}]}`: "version 2: want 1",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readKept(file); err == nil || !strings.Contains(err.Error(), problem) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: got %v, want the file and %q", text, err, problem)
		}
		pods, err := WatchPods(t.Context(), apiServer(t, nil), "node", file)
		if err != nil || pods.Get("a") != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzKept(f *testing.F) {
	f.Add([]byte(`{"version":1,"pods":[{"uid":"a","claims":["b"],"containers":[{"requests":{"cpu":"2"}}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		pods, err := decodeKept(text)
		if err != nil {
			return
		}
		for _, facts := range pods {
			_ = facts.Requested(facts.Claims)
			_ = facts.AllLimited()
		}
	})
}
