// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"errors"
	"sync/atomic"
	"testing"

	"plumbline.dev/plumbline/internal/agent/agenttest"
)

// A driver is closed when nobody uses it any more, however long that takes.
func TestEndWaitsForWork(t *testing.T) {
	n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
	p := n.start(d)
	var closed atomic.Bool
	p.Close = func() { closed.Store(true) }
	unlock, err := p.Lock(t.Context(), "a-uid")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.End()
	}()
	agenttest.Eventually(t, "the end waits", func() bool {
		free := p.working.mu.TryRLock()
		if free {
			p.working.mu.RUnlock()
		}
		return !free
	})
	if closed.Load() {
		t.Error("closed while somebody works on a claim")
	}
	unlock()
	<-ended
	if !closed.Load() {
		t.Error("not closed")
	}
	if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("b", "nic0")); !errors.Is(err, errEnded) {
		t.Errorf("prepared after the end: %v", err)
	}
	if err := p.Unprepare(t.Context(), agenttest.ClaimFor("b", "nic0").ClaimRef); !errors.Is(err, errEnded) {
		t.Errorf("unprepared after the end: %v", err)
	}
}
