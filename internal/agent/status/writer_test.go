// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/driver"
)

// apiServer has one claim, and keeps what is written of it.
type apiServer struct {
	mu      sync.Mutex
	claim   *resourceapi.ResourceClaim
	refuse  int // answers this many writes with an error
	code    int // of the refusal
	written []string
	failed  atomic.Int32 // what the writer says
}

// claimWith has devices of another driver too, and opaque parameters as some
// client wrote them.
func claimWith(parameters string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: written.Namespace, Name: written.Name, UID: written.UID, ResourceVersion: "1"},
	}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	c.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{
		Source: resourceapi.AllocationConfigSourceClaim,
		DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "dra.net", Parameters: runtime.RawExtension{Raw: []byte(parameters)}},
		},
	}}
	c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: "example.com", Pool: "node", Device: "other"}}
	return c
}

// codec is that of a content type.
func codec(contentType string) runtime.Codec {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
	return scheme.Codecs.CodecForVersions(info.Serializer, info.Serializer, resourceapi.SchemeGroupVersion, resourceapi.SchemeGroupVersion)
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claim == nil {
		s.claim = claimWith("{}")
	}
	after, code := s.claim, http.StatusOK
	if r.Method != http.MethodGet {
		after, code = s.write(r)
	}
	if code != http.StatusOK {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q}`, reasons[code])
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	_ = codec(runtime.ContentTypeProtobuf).Encode(after, w)
}

var reasons = map[int]metav1.StatusReason{
	http.StatusNotFound:            metav1.StatusReasonNotFound,
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
}

// write does as the API server does, and as its granular authorization of claim
// status wants it (pkg/registry/resource/resourceclaim).
func (s *apiServer) write(r *http.Request) (*resourceapi.ResourceClaim, int) {
	if s.refuse > 0 {
		s.refuse--
		return nil, s.code
	}
	after := &resourceapi.ResourceClaim{}
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == string(types.MergePatchType):
		var stored []byte
		if stored, err = runtime.Encode(codec(runtime.ContentTypeJSON), s.claim); err == nil {
			err = json.Unmarshal(merged(stored, body), after)
		}
	case r.Method == http.MethodPut:
		err = runtime.DecodeInto(codec(r.Header.Get("Content-Type")), body, after)
	default:
		err = errors.New("no way to write")
	}
	before := s.claim
	switch {
	case err != nil:
		return nil, http.StatusBadRequest
	case after.UID != before.UID || after.ResourceVersion != before.ResourceVersion:
		return nil, http.StatusConflict
	case !apiequality.Semantic.DeepEqual(after.Status.Allocation, before.Status.Allocation),
		!apiequality.Semantic.DeepEqual(of("example.com", after), of("example.com", before)):
		return nil, http.StatusUnprocessableEntity
	}
	after.ResourceVersion += "1"
	s.claim = after
	s.written = append(s.written, line(r, after))
	return after, http.StatusOK
}

// merged is a merge patch of two levels: metadata and status.
func merged(stored, patch []byte) []byte {
	var all, changes map[string]json.RawMessage
	_, _ = json.Unmarshal(stored, &all), json.Unmarshal(patch, &changes)
	for part, change := range changes {
		var fields, other map[string]json.RawMessage
		_, _ = json.Unmarshal(all[part], &fields), json.Unmarshal(change, &other)
		maps.Copy(fields, other)
		all[part], _ = json.Marshal(fields)
	}
	out, _ := json.Marshal(all)
	return out
}

func of(driverName string, c *resourceapi.ResourceClaim) []resourceapi.AllocatedDeviceStatus {
	return slices.DeleteFunc(slices.Clone(c.Status.Devices), func(d resourceapi.AllocatedDeviceStatus) bool { return d.Driver != driverName })
}

func line(r *http.Request, c *resourceapi.ResourceClaim) string {
	words := []string{r.Method, r.URL.Path}
	for _, d := range of("dra.net", c) {
		words = append(words, d.Device)
		for _, c := range d.Conditions {
			words = append(words, strings.TrimSuffix(fmt.Sprintf("%s=%s:%s:%s", c.Type, c.Status, c.Reason, c.Message), ":"))
		}
		if d.NetworkData != nil {
			words = append(words, d.NetworkData.InterfaceName)
		}
	}
	return strings.Join(words, " ")
}

func (s *apiServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.written...)
}

func startWriter(t *testing.T, s *apiServer) *Writer {
	t.Helper()
	server := httptest.NewServer(s)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf}})
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(client, nil)
	w.Failed = func() { s.failed.Add(1) }
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { w.Run(ctx) })
	t.Cleanup(func() { stop(); group.Wait(); server.Close() })
	return w
}

var written = driver.ClaimRef{UID: "claim-uid", Namespace: "default", Name: "aligned"}

const (
	statusPath  = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/aligned/status"
	writtenPath = "PATCH " + statusPath
)

func TestStatusIsRetriedUntilWritten(t *testing.T) {
	for _, code := range []int{http.StatusServiceUnavailable, http.StatusConflict} {
		s := &apiServer{refuse: 3, code: code}
		w := startWriter(t, s)
		w.Set(Report{Driver: "dra.net", Claim: written, Devices: []DeviceState{{
			Pool: "node", Device: "nic0", Reason: "Attached", Network: &driver.DeviceStatus{InterfaceName: "net1"},
		}}})
		agenttest.Eventually(t, "the status is written", func() bool { return len(s.seen()) == 1 })
		if got, want := s.seen()[0], writtenPath+" nic0 Ready=True:Attached NetworkReady=True:Attached net1"; got != want {
			t.Errorf("after %d: got  %s\nwant %s", code, got, want)
		}
		if got := s.failed.Load(); got != 3 {
			t.Errorf("after %d: %d failures told, want 3", code, got)
		}
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

// A claim that is gone, or another claim of its name, or one that is allocated
// no longer or anew, is not asked again.
func TestStatusOfAClaimThatIsGone(t *testing.T) {
	another, free := claimWith("{}"), claimWith("{}")
	another.UID, free.Status.Allocation = "another-uid", nil
	for name, s := range map[string]*apiServer{
		"gone": {refuse: 1, code: http.StatusNotFound}, "another of its name": {claim: another},
		"free": {claim: free}, "allocated anew": {refuse: 2, code: http.StatusUnprocessableEntity},
	} {
		w := startWriter(t, s)
		w.Set(Report{Driver: "dra.net", Claim: written, Devices: []DeviceState{{Pool: "node", Device: "nic0", Reason: "Attached"}}})
		agenttest.Eventually(t, "it is given up", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.desired) == 0
		})
		if got := s.seen(); len(got) > 0 {
			t.Errorf("%s: written %v, want nothing", name, got)
		}
	}
}

// The API server takes a change of a single byte of the allocation for a binding,
// which an agent may not do. Clients write parameters in any order, some with
// white space.
func TestStatusLeavesTheAllocationAlone(t *testing.T) {
	for name, test := range map[string]struct{ parameters, method string }{
		"sorted":           {`{"a":{"b":1},"z":2}`, "PATCH"},
		"as a program has": {`{"z":2,"a":{"b":1}}`, "PATCH"},
		"with white space": {`{"z": 2, "a": {"b": 1}}`, "PUT"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &apiServer{claim: claimWith(test.parameters)}
			w := startWriter(t, s)
			w.Set(Report{Driver: "dra.net", Claim: written, Devices: []DeviceState{{Pool: "node", Device: "nic0", Reason: "Attached"}}})
			agenttest.Eventually(t, "the status is written", func() bool { return len(s.seen()) == 1 })
			if got, want := s.seen()[0], test.method+" "+statusPath+" nic0 Ready=True:Attached NetworkReady=True:Attached"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// The next agent finds everything said: it writes nothing, and a condition that
// stays tells since when.
func TestStatusOfAnAgentBefore(t *testing.T) {
	s := &apiServer{}
	report := Report{Driver: "dra.net", Claim: written, Devices: []DeviceState{{Pool: "node", Device: "nic0", Reason: "Attached"}}}
	startWriter(t, s).Set(report)
	agenttest.Eventually(t, "the status is written", func() bool { return len(s.seen()) == 1 })
	long := metav1.NewTime(time.Unix(1777863721, 0))
	s.mu.Lock()
	for i := range s.claim.Status.Devices {
		for j := range s.claim.Status.Devices[i].Conditions {
			s.claim.Status.Devices[i].Conditions[j].LastTransitionTime = long
		}
	}
	s.mu.Unlock()
	next := startWriter(t, s)
	next.Set(report)
	agenttest.Eventually(t, "it was looked at", func() bool { next.mu.Lock(); defer next.mu.Unlock(); return len(next.desired) == 0 })
	if got := s.seen(); len(got) != 1 {
		t.Errorf("written %v, want the first agent's alone", got)
	}
	report.Devices = []DeviceState{{Pool: "node", Device: "nic0", Reason: "Repaired", Note: "put right"}}
	next.Set(report)
	agenttest.Eventually(t, "the note is written", func() bool { return len(s.seen()) == 2 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := of("dra.net", s.claim)[0].Conditions[0].LastTransitionTime; !got.Equal(&long) {
		t.Errorf("transition at %s, want %s: the device was ready all the time", got, long)
	}
}
