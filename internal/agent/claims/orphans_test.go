// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
)

// held has four claims prepared, each of one pod and one device.
func held(t *testing.T) *Preparer {
	t.Helper()
	dir := t.TempDir()
	records, err := journal.Open(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	specs, err := cdi.Open(filepath.Join(dir, "cdi"))
	if err != nil {
		t.Fatal(err)
	}
	d := &agenttest.FakeDriver{DriverName: "dra.net"}
	p := &Preparer{
		Driver: Of(d), Journal: records, CDI: specs, BootID: "boot", Machine: func() *model.Machine { return nil },
		RuntimeReady: func() error { return nil }, Namespaces: agenttest.NoNamespaces{}, Changed: func() {}, Status: func(status.Report) {},
	}
	for _, name := range []string{"there", "gone", "anew", "running"} {
		if _, err := p.Prepare(t.Context(), agenttest.ClaimFor(name, "nic-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func left(t *testing.T, p *Preparer) string {
	t.Helper()
	records, problems, err := p.Journal.List(p.Name())
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	var names []string
	for _, r := range records {
		names = append(names, r.Claim.Name)
	}
	return strings.Join(names, " ")
}

// Only what neither the API server has nor a pod may use is given back.
func TestSweep(t *testing.T) {
	claim := func(name string, uid types.UID) runtime.Object {
		return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}}
	}
	refused := errors.New("the API server is away")
	for name, test := range map[string]struct {
		api, ready error
		want       string
	}{
		"everybody answers":                 {nil, nil, "running there"},
		"the API server is away":            {refused, nil, "anew gone running there"},
		"nobody knows what runs":            {nil, refused, "anew gone running there"},
		"neither, as while a node restarts": {refused, refused, "anew gone running there"},
	} {
		t.Run(name, func(t *testing.T) {
			p := held(t)
			client := fake.NewClientset(claim("there", "there-uid"), claim("anew", "younger-uid"))
			client.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
				return test.api != nil, nil, test.api
			})
			s := &OrphanSweeper{
				Client: client, Preparers: []*Preparer{p}, Ready: func() error { return test.ready },
				Lives: func(pod types.UID) bool { return pod == "running-pod" },
			}
			for range 2 {
				if err := s.sweep(t.Context()); (err == nil) != (test.api == nil && test.ready == nil) {
					t.Errorf("error %v", err)
				}
			}
			if got := left(t, p); got != test.want {
				t.Errorf("left %q, want %q", got, test.want)
			}
		})
	}
}

// A claim that waits does not wait for the next regular look.
func TestLooksWhenWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, wanted := held(t), make(chan struct{}, 1)
		s := &OrphanSweeper{
			Client: fake.NewClientset(), Preparers: []*Preparer{p}, Ready: func() error { return nil },
			Lives: func(types.UID) bool { return false }, Wanted: wanted,
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.Run(ctx)
		time.Sleep(sweepInterval / 2)
		if got := left(t, p); got == "" {
			t.Error("nothing is held before anybody wants it")
		}
		wanted <- struct{}{}
		synctest.Wait()
		if got := left(t, p); got != "" {
			t.Errorf("left %q, want nothing", got)
		}
	})
}
