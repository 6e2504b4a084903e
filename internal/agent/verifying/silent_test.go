// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifying

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/verify/collect"
)

// A pod whose file system does not answer is not known, the others are judged, who
// asks is answered, and the agent stops.
func TestSilentPod(t *testing.T) {
	s := newFixture(t, "a3-ultragpu-8g")
	options := s.node.Options(t)
	options.Patience = 100 * time.Millisecond
	kernel, err := collect.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kernel.Close() })
	s.Kernel = kernel
	silent := hosttest.NewSilent(t, "/dev/silent")
	hung, hungPod := s.start(t, "hung", []int{0}, []int{0}, cpuset.New(4, 5))
	_, allocated := s.start(t, "train", nil, []int{1}, cpuset.New())
	root := s.node.Path(fmt.Sprintf("proc/%d/root", hung.PID))
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(silent.Dir, root); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	within(t, silent, "the looks", func() {
		for range 3 {
			s.Once(ctx)
		}
	})
	if n := kernel.Unanswered(); n != 1 {
		t.Errorf("%d looks under way, want 1", n)
	}
	for claim, want := range map[string]string{string(allocated.Claim.UID): "True AsClaimed ", string(hungPod.Claim.UID): "Unknown NotRead "} {
		found := false
		for uid, got := range s.conditions {
			found = found || string(uid) == claim && strings.HasPrefix(got, want)
		}
		if !found {
			t.Errorf("claim %s: conditions %q, want %s", claim, s.conditions, want)
		}
	}
	within(t, silent, "the answer", func() {
		if got := s.answer(t, ""); got["hung"] != "Unknown" || got["train"] != "Aligned" {
			t.Errorf("who asks hears %v", got)
		}
	})
	within(t, silent, "Run", func() {
		cancel()
		s.Run(ctx)
	})
	silent.End()
	s.node.Write(t, hung)
	for deadline := time.Now().Add(20 * time.Second); kernel.Unanswered() != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a look that was answered is still counted")
		}
	}
	s.Once(t.Context())
	if got := s.conditions[hungPod.Claim.UID]; !strings.HasPrefix(got, "True ") {
		t.Errorf("once it answers: %s", got)
	}
}

// within fails the test where fn does not return.
func within(t *testing.T, silent *hosttest.Silent, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Errorf("%s: does not return", what)
		silent.End()
		<-done
	}
}
