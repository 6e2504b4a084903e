// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicies

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/hostpolicy"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/model"
)

// The library's handlers wait for the clock of the process, which a bubble of synctest is
// decades behind.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

// policy wants links of a driver to be up, on nodes of a pool; "" is every node.
func policy(name, pool string, links ...hosts.LinkPolicy) *hosts.HostPolicy {
	p := &hosts.HostPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3}, Spec: hosts.HostPolicySpec{Links: links}}
	if pool != "" {
		p.Spec.NodeSelector.MatchLabels = map[string]string{"pool": pool}
	}
	return p
}

var up = hosts.LinkPolicy{Driver: "mlx5_core", Up: new(true), MTU: new(int32(9000))}

func TestChosen(t *testing.T) {
	unsound := policy("unsound", "")
	unsound.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Near"}}
	policies, wrong := chosen([]*hosts.HostPolicy{
		policy("of this pool", "a", up), policy("of another", "b", up), policy("of all", "", up),
		policy("hostile", "", hosts.LinkPolicy{Driver: "../../etc", AltName: "a b"}), unsound,
	}, labels.Set{"pool": "a"})
	want := []hostpolicy.LinkPolicy{{Driver: "mlx5_core", Up: new(true), MTU: new(9000)}}
	if diff := cmp.Diff([]hostpolicy.Policy{
		{Name: "of this pool", Generation: 3, Links: want}, {Name: "of all", Generation: 3, Links: want},
	}, policies); diff != "" {
		t.Error(diff)
	}
	var told []string
	for _, w := range wrong {
		told = append(told, w.Name+": "+w.Open[0].State+": "+w.Open[0].Reason)
	}
	for i, part := range []string{`hostile: refused: policy "hostile": links[0]: driver: "../../etc"`, "unsound: refused: spec.nodeSelector: "} {
		if len(told) != 2 || !strings.HasPrefix(told[i], part) {
			t.Errorf("told %q, want %q", told, part)
		}
	}
}

// Names of a host's links are whoever's who makes them.
func TestResultsFitTheAPI(t *testing.T) {
	var results []hostpolicy.Result
	for range 3 * maxOpen {
		results = append(results, hostpolicy.Result{Policy: "p", Link: "\x1b[2J" + strings.Repeat("l", 500), Field: "mtu", Want: "9000", State: hostpolicy.Pending, Reason: strings.Repeat("é", 3000)})
	}
	results = append(results, hostpolicy.Result{Policy: "p", State: hostpolicy.Applied}, hostpolicy.Result{Link: "eth0", State: hostpolicy.Failed})
	got := summed([]hostpolicy.Policy{{Name: "p"}, {Name: "a"}}, results, []hosts.PolicyResult{{Name: "m"}})
	var names []string
	for _, p := range got {
		names = append(names, p.Name)
		for _, f := range p.Open {
			if len(f.Link) > maxLink || len(f.Reason) > maxReason || strings.Contains(f.Link, "\x1b") {
				t.Errorf("%+v does not fit", f)
			}
		}
	}
	if !slices.Equal(names, []string{"", "a", "m", "p"}) || got[3].Applied != 1 || len(got[3].Open) != maxOpen {
		t.Errorf("results of %q; of the last %d applied, %d open", names, got[3].Applied, len(got[3].Open))
	}
}

// api is an API server with policies, which forgets at once what watches follow: whoever
// watches asks for all of them again and again (KEP-3157).
type api struct {
	mu       sync.Mutex
	away     bool
	policies []hosts.HostPolicy
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away {
		return nil, errors.New("connection refused")
	}
	switch q := r.URL.Query(); {
	case q.Get("watch") == "":
		list := hosts.HostPolicyList{TypeMeta: metav1.TypeMeta{APIVersion: hosts.GroupVersion.String(), Kind: "HostPolicyList"}, Items: a.policies}
		list.ResourceVersion = "1"
		return answer(http.StatusOK, list)
	case q.Get("sendInitialEvents") != "true":
		return answer(http.StatusGone, apierrors.NewResourceExpired("a test").Status())
	}
	kind := metav1.TypeMeta{APIVersion: hosts.GroupVersion.String(), Kind: "HostPolicy"}
	var events []any
	for _, policy := range a.policies {
		policy.TypeMeta, policy.ResourceVersion = kind, "1"
		events = append(events, map[string]any{"type": "ADDED", "object": policy})
	}
	end := hosts.HostPolicy{TypeMeta: kind, ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}}
	return answer(http.StatusOK, append(events, map[string]any{"type": "BOOKMARK", "object": end})...)
}

func answer(code int, lines ...any) (*http.Response, error) {
	var body bytes.Buffer
	for _, line := range lines {
		if err := json.NewEncoder(&body).Encode(line); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(&body)}, nil
}

func (a *api) set(away bool, policies ...hosts.HostPolicy) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away, a.policies = away, policies
}

// TestKeeperFollows: what policies are known is followed, and what is not known changes
// nothing: an agent that starts while the API server is away must not put back what
// policies want that it has not seen.
func TestKeeperFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &api{away: true}
		client, err := kube.OwnClient(&rest.Config{Host: "http://api", Transport: server, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var applied [][]string
		told, pool, relabelled := 0, "a", make(chan struct{})
		k := New(Options{
			Client: client, Interval: time.Hour,
			Labels: func() (labels.Set, <-chan struct{}) {
				mu.Lock()
				defer mu.Unlock()
				return labels.Set{"pool": pool}, relabelled
			},
			Machine: func() *model.Machine { return &model.Machine{} },
			Apply: func(policies []hostpolicy.Policy, _ *model.Machine) (o Outcome, err error) {
				mu.Lock()
				defer mu.Unlock()
				names := []string{}
				for _, p := range policies {
					names = append(names, p.Name)
					o.Results = append(o.Results, hostpolicy.Result{Policy: p.Name, State: hostpolicy.Applied})
				}
				applied = append(applied, names)
				return o, nil
			},
			Told: func() { mu.Lock(); told++; mu.Unlock() },
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		last := func() []string {
			mu.Lock()
			defer mu.Unlock()
			if len(applied) == 0 {
				return nil
			}
			return applied[len(applied)-1]
		}
		wait := func() { time.Sleep(10 * time.Minute); synctest.Wait() }

		wait()
		if got := last(); got != nil {
			t.Errorf("without an API server: %q", got)
		}
		server.set(false, *policy("of a", "a", up), *policy("of b", "b", up))
		wait()
		if got := last(); !slices.Equal(got, []string{"of a"}) {
			t.Errorf("policies of pool a: %q", got)
		}
		mu.Lock()
		pool = "b"
		close(relabelled)
		relabelled = make(chan struct{})
		mu.Unlock()
		wait()
		if got := last(); !slices.Equal(got, []string{"of b"}) || k.Results()[0].Name != "of b" || k.Results()[0].Applied != 1 {
			t.Errorf("the node's label changed: %q, %+v", got, k.Results())
		}
		server.set(true)
		wait()
		k.Look()
		wait()
		if got := last(); !slices.Equal(got, []string{"of b"}) {
			t.Errorf("the API server went: %q", got)
		}
		server.set(false)
		wait()
		if got := last(); len(got) > 0 || len(k.Results()) > 0 {
			t.Errorf("the policies went: %q, %+v", got, k.Results())
		}
		mu.Lock()
		if told != 3 {
			t.Errorf("told %d times, want 3", told)
		}
		mu.Unlock()
		cancel()
		running.Wait()
	})
}

// A record that cannot be written changes nothing more, and is told with each policy.
func TestKeeperTellsFailures(t *testing.T) {
	told := 0
	k := New(Options{
		Machine: func() *model.Machine { return &model.Machine{} },
		Apply: func([]hostpolicy.Policy, *model.Machine) (Outcome, error) {
			return Outcome{}, errors.New("record what policies change: no space left on device")
		},
		Told: func() { told++ },
	})
	k.know([]*hosts.HostPolicy{policy("p", "", up)})
	for range 2 {
		k.look(t.Context(), nil)
	}
	if r := k.Results(); told != 1 || len(r) != 1 || len(r[0].Open) != 1 || !strings.Contains(r[0].Open[0].Reason, "no space left") {
		t.Errorf("told %d times: %+v", told, k.Results())
	}
}
