// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/unixhttp"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// apiServer has one pod, and remembers what it was asked.
type apiServer struct {
	allocated verifytest.AllocatedPod
	mu        sync.Mutex
	asked     []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch path := r.URL.Path; {
	case r.URL.Query().Get("sendInitialEvents") == "true": // an older server, that lists
		w.WriteHeader(http.StatusUnprocessableEntity)
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: 422}
	case r.URL.Query().Get("watch") == "true":
		w.WriteHeader(http.StatusOK)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		<-r.Context().Done()
		return
	case path == "/api/v1/pods":
		answer = corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{*s.allocated.Pod}}
	case strings.HasSuffix(path, "/resourceslices"):
		answer = resourceapi.ResourceSliceList{TypeMeta: metav1.TypeMeta{Kind: "ResourceSliceList", APIVersion: "resource.k8s.io/v1"}, Items: s.allocated.Slices}
	case strings.Contains(path, "/resourceclaims/"):
		claim := *s.allocated.Claim
		claim.TypeMeta = metav1.TypeMeta{Kind: "ResourceClaim", APIVersion: "resource.k8s.io/v1"}
		answer = claim
	default:
		answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", server)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An agent that serves nothing looks at claims that DRANET, dra-driver-cpu and
// NVIDIA's driver serve. It makes nothing on the host, and changes nothing in the
// cluster but events.
func TestObserve(t *testing.T) {
	n := verifytest.NewWholeNode(t, "a3-ultragpu-8g")
	p := n.NewPod("train")
	allocated := n.Give(p, verifytest.Originals(), nil, []int{0}, cpuset.New(4, 5))
	n.UnbindMemory(p)
	p.Pin(cpuset.New(60, 61), p.Mems) // the other socket
	n.Write(t, p)
	api := &apiServer{allocated: allocated}
	server := httptest.NewServer(api)
	defer server.Close()

	o := DefaultOptions()
	o.Drivers, o.NodeName, o.VerifyInterval = nil, n.Name, time.Second
	o.ProcRoot, o.SysfsRoot = n.Path("proc"), n.Path("sys")
	run := t.TempDir()
	o.Socket = filepath.Join(run, "agent.sock")
	host := filepath.Join(t.TempDir(), "host")
	o.StateDir, o.KubeletRoot, o.CDIDir, o.NRISocket = host+"/state", host+"/kubelet", host+"/cdi", host+"/nri.sock"
	o.Kubeconfig = kubeconfig(t, server.URL)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Run(ctx, o) }()
	report := askUntilSeen(t, o.Socket)
	awaitEvent(t, api)
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	pod := report.Pods[0]
	if pod.Verdict != "Misaligned" || pod.Reason != "CPUsWrong" || !strings.Contains(pod.Message, "are of NUMA node 1") {
		t.Errorf("%s (%s): %s", pod.Verdict, pod.Reason, pod.Message)
	}
	if _, err := os.Stat(host); err == nil {
		t.Error("the observer made something on the host")
	}
	for _, request := range api.requests() {
		if !strings.HasPrefix(request, "GET ") && !strings.HasSuffix(request, "/events") && !strings.Contains(request, "/events/") {
			t.Errorf("the observer asked %s", request)
		}
		if strings.Contains(request, "/nodes") {
			t.Errorf("the observer has no right to %s", request)
		}
	}
}

func (s *apiServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// askUntilSeen asks the agent until it knows of the pod.
func askUntilSeen(t *testing.T, socket string) verify.Report {
	t.Helper()
	var report verify.Report
	var last error
	for range 300 {
		text, err := unixhttp.Ask(t.Context(), socket, VerifyPath, unixhttp.AskAtMost)
		last = err
		if err == nil {
			if err := json.Unmarshal([]byte(text), &report); err != nil {
				t.Fatal(err)
			}
			if len(report.Pods) > 0 {
				return report
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("the agent says nothing of the pod: %v", last)
	return report
}

func awaitEvent(t *testing.T, api *apiServer) {
	t.Helper()
	for range 300 {
		if slices.ContainsFunc(api.requests(), func(r string) bool { return strings.HasPrefix(r, "POST ") && strings.HasSuffix(r, "/events") }) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("no event was made; asked %q", api.requests())
}
