// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"plumbline.dev/plumbline/internal/model"
)

// fakeLinks is a fake Links. It counts calls.
type fakeLinks struct {
	mu         sync.Mutex
	links      []LinkFacts
	err        error
	asked      int
	subscribed int
	events     chan struct{}
}

func (f *fakeLinks) Links(context.Context) ([]LinkFacts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.links, f.err
}

func (f *fakeLinks) Subscribe(context.Context) (<-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribed++
	if f.err != nil {
		return nil, f.err
	}
	f.events = make(chan struct{})
	return f.events, nil
}

// set changes the links.
func (f *fakeLinks) set(links []LinkFacts, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.links, f.err = links, err
}

func (f *fakeLinks) lookups() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// smallLinks are netlink's facts for the interfaces of small.
func smallLinks() []LinkFacts {
	var list []LinkFacts
	for i, name := range []string{"lo", "eth0", "eth1", "eth2", "ens4", "usb0", "rxe-under", "hl1"} {
		list = append(list, LinkFacts{Name: name, Index: i + 1})
	}
	return list
}

const resync = time.Minute

// watching runs a test inside a bubble with its own clock, with a Watch over
// the small machine whose first look was taken.
func watching(t *testing.T, test func(t *testing.T, f *fakeLinks, seen <-chan Snapshot)) {
	sys := tree(t, small())
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLinks{links: smallLinks()}
		seen := Watch(t.Context(), Sources{Sys: sys, Links: f}, Options{}, resync)
		first := <-seen
		if first.Err != nil || len(first.Machine.NICs) != 9 {
			t.Fatalf("first look: got %d NICs, error %v", len(first.Machine.NICs), first.Err)
		}
		test(t, f, seen)
	})
}

func quiet(t *testing.T, seen <-chan Snapshot, why string) {
	t.Helper()
	synctest.Wait()
	select {
	case s := <-seen:
		t.Fatalf("%s: got a snapshot of %d NICs", why, len(s.Machine.NICs))
	default:
	}
}

func TestWatchGathersABurst(t *testing.T) {
	watching(t, func(t *testing.T, f *fakeLinks, seen <-chan Snapshot) {
		started, before := time.Now(), f.lookups()
		for range 100 {
			f.events <- struct{}{}
		}
		changed := smallLinks()
		changed[1].Uplink = new("carries the default route")
		f.set(changed, nil)
		s := <-seen
		if n := s.Machine.NICs[0]; n.Withheld == nil || *n.Withheld != "carries the default route" {
			t.Errorf("NIC %s: not withheld", n)
		}
		if took := time.Since(started); took != coalesce {
			t.Errorf("took %v, want %v", took, coalesce)
		}
		if looks := f.lookups() - before; looks != 1 {
			t.Errorf("100 events cost %d looks, want 1", looks)
		}
	})
}

// slowGPUs makes a scan take long.
type slowGPUs struct{ looks atomic.Int64 }

func (g *slowGPUs) GPUs(context.Context, []model.PCIFunction, map[model.PCIAddress][]string) ([]model.GPU, []Problem, error) {
	g.looks.Add(1)
	time.Sleep(time.Second)
	return nil, nil, nil
}

func TestWatchRestsAfterLongLooks(t *testing.T) {
	sys := tree(t, small())
	synctest.Test(t, func(t *testing.T) {
		f, slow := &fakeLinks{links: smallLinks()}, &slowGPUs{}
		seen := Watch(t.Context(), Sources{Sys: sys, Links: f, GPUs: slow}, Options{}, time.Hour)
		<-seen
		for range 1000 { // 100 s of flapping
			time.Sleep(100 * time.Millisecond)
			select {
			case f.events <- struct{}{}:
			default:
			}
		}
		if looks := slow.looks.Load(); looks < 10 || looks > 12 {
			t.Errorf("looks of 1 s: took %d in 100 s, want one every 10 s", looks)
		}
	})
}

func TestWatchIsSilentWithoutChange(t *testing.T) {
	watching(t, func(t *testing.T, f *fakeLinks, seen <-chan Snapshot) {
		before := f.lookups()
		f.events <- struct{}{}
		time.Sleep(3 * resync)
		quiet(t, seen, "nothing changed")
		if looks := f.lookups() - before; looks != 4 {
			t.Errorf("one event and three resyncs cost %d looks, want 4", looks)
		}
	})
}

func TestWatchSubscribesAgainAfterALoss(t *testing.T) {
	watching(t, func(t *testing.T, f *fakeLinks, seen <-chan Snapshot) {
		for loss := range 3 {
			changed := smallLinks()
			changed[1].MTU = new(9000 + loss)
			f.set(changed, nil)
			close(f.events)
			if s := <-seen; *s.Machine.NICs[0].Interface.MTU != 9000+loss {
				t.Errorf("loss %d: MTU %d", loss, *s.Machine.NICs[0].Interface.MTU)
			}
		}
		if f.subscribed != 4 {
			t.Errorf("subscribed %d times, want 4", f.subscribed)
		}
	})
}

func TestWatchSaysOnceThatItFails(t *testing.T) {
	watching(t, func(t *testing.T, f *fakeLinks, seen <-chan Snapshot) {
		f.set(nil, errors.New("no buffer space"))
		close(f.events)
		if s := <-seen; s.Err == nil || s.Machine != nil {
			t.Errorf("got %+v, want an error and no machine", s)
		}
		time.Sleep(10 * resubscribe)
		quiet(t, seen, "the same error")
		f.set(smallLinks(), nil)
		if s := <-seen; s.Err != nil || len(s.Machine.NICs) != 9 {
			t.Errorf("after the failure: got error %v", s.Err)
		}
	})
}

func TestWatchEndsWithItsContext(t *testing.T) {
	sys := tree(t, small())
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		seen := Watch(ctx, Sources{Sys: sys}, Options{}, resync)
		cancel()
		synctest.Wait()
		for range seen { // at most the first look
		}
	})
}

func TestUnknownLinksAreLeftOut(t *testing.T) {
	f := &fakeLinks{links: smallLinks()[:2]} // lo and eth0
	m, problems := scanned(t, Sources{Sys: tree(t, small()), Links: f}, Options{})
	if len(m.NICs) != 5 {
		t.Errorf("got %d NICs, want eth0 and the four RDMA devices:\n%s", len(m.NICs), nicLines(m.NICs))
	}
	if len(problems) != 5 {
		t.Errorf("want a line for each interface that netlink does not know, got:\n%s", problemLines(problems))
	}
}

func TestNetlinkFailureIsNoMachine(t *testing.T) {
	f := &fakeLinks{err: errors.New("no buffer space")}
	if m, _, err := Scan(t.Context(), Sources{Sys: fstest.MapFS{"devices/x": {}}, Links: f}, Options{}); err == nil {
		t.Errorf("got a machine of %d NICs, any of which may carry the node", len(m.NICs))
	}
}
