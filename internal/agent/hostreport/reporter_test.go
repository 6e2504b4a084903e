// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/kube"
)

// server is an API server with HostReports.
type server struct {
	// mu is held by whoever asks or changes it, and the host beside it.
	mu sync.Mutex
	// away fails every request, undefined is one without the definition, racing has
	// somebody else write before each update, so often.
	away, undefined bool
	racing          int
	object          *hosts.HostReport
	version         int
	writes, reads   int
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errors.New("connection refused")
	}
	if s.undefined {
		return answer(http.StatusNotFound, failure(http.StatusNotFound, metav1.StatusReasonNotFound)), nil
	}
	switch r.Method {
	case http.MethodGet:
		s.reads++
		if s.object == nil || path.Base(r.URL.Path) != s.object.Name {
			return answer(http.StatusNotFound, failure(http.StatusNotFound, metav1.StatusReasonNotFound)), nil
		}
		return answer(http.StatusOK, s.object), nil
	case http.MethodPost, http.MethodPut:
		return s.write(r)
	}
	return nil, errors.New("not served: " + r.Method)
}

func (s *server) write(r *http.Request) (*http.Response, error) {
	sent := &hosts.HostReport{}
	if err := json.NewDecoder(r.Body).Decode(sent); err != nil {
		return nil, err
	}
	if r.Method == http.MethodPut {
		if s.racing > 0 {
			s.racing--
			s.version++
			s.object.ResourceVersion = strconv.Itoa(s.version)
		}
		if sent.ResourceVersion != s.object.ResourceVersion {
			return answer(http.StatusConflict, failure(http.StatusConflict, metav1.StatusReasonConflict)), nil
		}
	}
	s.writes++
	s.version++
	sent.ResourceVersion = strconv.Itoa(s.version)
	s.object = sent
	return answer(http.StatusOK, sent), nil
}

func failure(code int32, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: string(reason),
	}
}

func answer(code int, body any) *http.Response {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // a type of the API
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)),
	}
}

// bench is a reporter at work on a host that the test changes.
type bench struct {
	*server
	client  *fake.Clientset
	found   hosts.Report
	changed chan struct{}
	stop    context.CancelFunc
	// unsure says that policies are not known.
	unsure bool
}

func wrong(check, found string) hosts.Finding {
	return hosts.Finding{Check: check, Severity: hosts.Functional, Verdict: hosts.Wrong, Found: found, Source: "/sys"}
}

func reportOf(findings ...hosts.Finding) hosts.Report {
	return hosts.Report{OK: 3, Wrong: len(findings), Checks: []string{"links"}, Findings: findings}
}

func start(t *testing.T, s *server) *bench {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "first"}}
	b := &bench{server: s, client: fake.NewClientset(node), changed: make(chan struct{}, 1), found: reportOf(wrong("links", "down"))}
	b.run(t)
	return b
}

func (b *bench) run(t *testing.T) {
	t.Helper()
	reports, err := kube.OwnClient(&rest.Config{Host: "http://api", Transport: b.server, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{Node: "a", Client: b.client, Reports: reports, Interval: time.Minute, Changed: b.changed, Look: b.look})
	ctx, cancel := context.WithCancel(t.Context())
	b.stop = cancel
	go r.Run(ctx)
	synctest.Wait()
}

func (b *bench) look() (hosts.Report, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return *b.found.DeepCopy(), !b.unsure
}

// An agent that starts does not know yet what became of policies. What the report says of
// them stays until it does: an uninstallation would else take them for undone.
func TestPoliciesOfTheAgentBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &server{})
		with := reportOf(wrong("links", "down"))
		with.Policies, with.SetupWanted = []hosts.PolicyResult{{Name: "rails", Applied: 3}}, true
		after(time.Minute)
		b.become(with)
		after(2 * time.Minute)
		b.stop()
		synctest.Wait()
		b.set(func() { b.unsure, b.found = true, reportOf(wrong("links", "flaps")) })
		b.run(t)
		after(3 * time.Minute)
		told := func(want int) {
			t.Helper()
			b.mu.Lock()
			defer b.mu.Unlock()
			if r := b.object.Report; len(r.Policies) != want || r.SetupWanted != (want > 0) || r.Findings[0].Found != "flaps" {
				t.Errorf("the report has %+v, want %d policies", r, want)
			}
		}
		told(1)
		b.set(func() { b.unsure = false })
		after(3 * time.Minute)
		told(0)
		b.stop()
	})
}

// set changes the server or the host.
func (b *bench) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// become changes the host, and tells the reporter.
func (b *bench) become(r hosts.Report) {
	b.set(func() { b.found = r })
	select {
	case b.changed <- struct{}{}:
	default: // one is pending, and covers this change too
	}
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) want(t *testing.T, writes int, found string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writes != writes {
		t.Errorf("%d writes, want %d", b.writes, writes)
	}
	if b.object == nil {
		t.Fatal("no HostReport")
	}
	if got := b.object.Report.Findings[0].Found; got != found {
		t.Errorf("it says %q, want %q", got, found)
	}
	if o := b.object.OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].Name != "a" {
		t.Errorf("owners %v, want the Node alone", o)
	}
}

func TestReportIsWrittenOnChangeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &server{})
		defer func() { b.stop() }()
		b.want(t, 1, "down")
		first := b.object.Report.Changed
		after(time.Hour)
		b.want(t, 1, "down")
		if b.reads > 8 {
			t.Errorf("read %d times in an hour without a change, want one in ten minutes at most", b.reads)
		}

		b.become(reportOf(wrong("links", "dormant")))
		synctest.Wait()
		b.want(t, 2, "dormant")
		if !b.object.Report.Changed.After(first.Time) {
			t.Error("the time of the change is that of the first report")
		}

		// A link that flaps costs one write in a gap, and the last state is the one written.
		for i := range 60 {
			b.become(reportOf(wrong("links", strconv.Itoa(i))))
			after(time.Second)
		}
		after(2 * gap)
		if b.writes > 5 {
			t.Errorf("%d writes, want at most one in %s", b.writes, gap)
		}
		b.want(t, b.writes, "59")

		// The next agent finds it as it is.
		b.stop()
		writes := b.writes
		b.run(t)
		b.want(t, writes, "59")
	})
}

func TestFiguresAreNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &server{})
		defer b.stop()
		b.become(reportOf(wrong(counting[1], "1")))
		after(2 * gap)
		b.want(t, 2, "1")
		for i := range 40 {
			b.become(reportOf(wrong(counting[1], strconv.Itoa(i+2))))
			b.set(func() { b.found.OK = i })
			after(time.Minute)
		}
		b.want(t, 2, "1")
		after(figuresAgain)
		b.want(t, 3, "41")
	})
}

func TestFaultsOfTheServer(t *testing.T) {
	t.Run("away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, &server{away: true})
			defer b.stop()
			b.become(reportOf(wrong("links", "later")))
			after(10 * time.Second)
			b.set(func() { b.away = false })
			after(time.Minute)
			b.want(t, 1, "later")
		})
	})
	t.Run("no definition yet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, &server{undefined: true})
			defer b.stop()
			after(time.Hour)
			b.set(func() { b.undefined = false })
			after(2 * readAgain)
			b.want(t, 1, "down")
		})
	})
	t.Run("deleted by hand", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, &server{})
			defer b.stop()
			b.set(func() { b.object = nil })
			after(2 * readAgain)
			b.want(t, 2, "down")
		})
	})
	t.Run("another writer is faster", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, &server{})
			defer b.stop()
			b.set(func() { b.racing = 2 })
			b.become(reportOf(wrong("links", "dormant")))
			after(2 * gap)
			b.want(t, 2, "dormant")
		})
	})
	t.Run("the node was made again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, &server{})
			defer b.stop()
			changed := b.object.Report.Changed
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "second"}}
			if _, err := b.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			after(2 * readAgain)
			b.want(t, 2, "down")
			if got := b.object.OwnerReferences[0].UID; got != types.UID("second") {
				t.Errorf("owned by %q, want the node that is there", got)
			}
			if !b.object.Report.Changed.Equal(&changed) {
				t.Error("the time of the change is another, while the host is as it was")
			}
		})
	})
}
