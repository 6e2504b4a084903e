// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/driver"
)

// apiServer answers the requests of a status writer and keeps them.
type apiServer struct {
	mu      sync.Mutex
	refuse  int // answers this many requests with an error
	code    int // of the refusal
	written []string
}

var reasons = map[int]metav1.StatusReason{
	http.StatusNotFound:            metav1.StatusReasonNotFound,
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body struct {
		Metadata struct{ UID string }
		Status   struct {
			Devices []struct {
				Device      string
				NetworkData *struct{ InterfaceName string }
				Conditions  []struct{ Type, Status, Reason, Message string }
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if s.refuse > 0 {
		s.refuse--
		w.WriteHeader(s.code)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + string(reasons[s.code]) + `"}`))
		return
	}
	line := []string{r.Method, r.URL.Path, r.URL.Query().Get("fieldManager"), body.Metadata.UID}
	for _, d := range body.Status.Devices {
		line = append(line, d.Device)
		for _, c := range d.Conditions {
			line = append(line, strings.TrimSuffix(c.Type+"="+c.Status+":"+c.Reason+":"+c.Message, ":"))
		}
		if d.NetworkData != nil {
			line = append(line, d.NetworkData.InterfaceName)
		}
	}
	s.written = append(s.written, strings.Join(line, " "))
	_, _ = w.Write([]byte(`{"kind":"ResourceClaim","apiVersion":"resource.k8s.io/v1"}`))
}

func (s *apiServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.written...)
}

func startWriter(t *testing.T, s *apiServer) *Writer {
	t.Helper()
	server := httptest.NewServer(s)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(client, nil)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { w.Run(ctx) })
	t.Cleanup(func() { stop(); group.Wait(); server.Close() })
	return w
}

var written = driver.ClaimRef{UID: "claim-uid", Namespace: "default", Name: "aligned"}

const writtenPath = "PATCH /apis/resource.k8s.io/v1/namespaces/default/resourceclaims/aligned/status plumbline-agent/dra.net claim-uid"

func TestStatusIsRetriedUntilWritten(t *testing.T) {
	s := &apiServer{refuse: 3, code: http.StatusServiceUnavailable}
	w := startWriter(t, s)
	w.Set(Report{Driver: "dra.net", Claim: written, Devices: []DeviceState{{
		Pool: "node", Device: "nic0", Reason: "Attached", Network: &driver.DeviceStatus{InterfaceName: "net1"},
	}}})
	agenttest.Eventually(t, "the status is written", func() bool { return len(s.seen()) == 1 })
	if got, want := s.seen()[0], writtenPath+" nic0 Ready=True:Attached NetworkReady=True:Attached net1"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestStatusOfAFailureAndItsEnd(t *testing.T) {
	s := &apiServer{}
	w := startWriter(t, s)
	failed := []DeviceState{{Pool: "node", Device: "nic0", Reason: "AttachFailed", Err: errors.New("interface is down")}}
	w.Set(Report{Driver: "dra.net", Claim: written, Devices: failed})
	agenttest.Eventually(t, "the failure is written", func() bool { return len(s.seen()) == 1 })
	w.Set(Report{Driver: "dra.net", Claim: written, Devices: failed}) // nothing new
	w.Set(Report{Driver: "dra.net", Claim: written, Devices: nil})
	agenttest.Eventually(t, "the end is written", func() bool { return len(s.seen()) == 2 })
	want := writtenPath + " nic0 Ready=False:AttachFailed:interface is down NetworkReady=False:AttachFailed:interface is down\n" + writtenPath
	if got := strings.Join(s.seen(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A claim that is gone, or another claim of its name, is not asked again.
func TestStatusOfAClaimThatIsGone(t *testing.T) {
	for _, code := range []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity} {
		s := &apiServer{refuse: 1, code: code}
		w := startWriter(t, s)
		w.Set(Report{Driver: "dra.net", Claim: written, Devices: []DeviceState{{Pool: "node", Device: "nic0", Reason: "Attached"}}})
		agenttest.Eventually(t, "it is given up", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.desired) == 0
		})
		if got := s.seen(); len(got) > 0 {
			t.Errorf("%d: written %v, want nothing", code, got)
		}
	}
}
