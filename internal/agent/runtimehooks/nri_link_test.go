// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

// A connection may end while the runtime still tells what it runs; what was
// told then says nothing about the next one.
func TestLostWhileSynchronising(t *testing.T) {
	type connection struct{ stub.Stub }
	waiting, lost := errors.New("waiting"), errors.New("lost")
	for _, test := range []struct {
		name  string
		then  func(*link)
		ready bool
	}{
		{"kept", func(*link) {}, true},
		{"lost", func(l *link) { l.set(nil, lost) }, false},
		{"another since", func(l *link) { l.set(nil, lost); l.set(connection{}, waiting) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLink("/nowhere")
			l.set(connection{}, waiting)
			synced := l.begin()
			test.then(l)
			synced()
			if err := l.ready(); test.ready != (err == nil) {
				t.Errorf("got %v, want ready %t", err, test.ready)
			}
			select {
			case <-l.joined:
				if !test.ready {
					t.Error("joined a lost connection")
				}
			default:
				if test.ready {
					t.Error("not joined")
				}
			}
		})
	}
	l := newLink("/nowhere")
	l.begin()()
	if l.ready() == nil {
		t.Error("ready without a connection")
	}
	l.set(nil, nil)
	if err := l.update([]*api.ContainerUpdate{{}}); err == nil {
		t.Error("moved a container without a connection")
	}
}

// An agent that is told to stop answers what it was asked first, and leaves all
// the same where the runtime never pauses.
func TestLeavesBetweenTwoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink("/nowhere")
		_, first := l.deadline(t.Context())
		_, second := l.deadline(t.Context())
		left := make(chan time.Time, 1)
		go func() { l.drain(); left <- time.Now() }()
		time.Sleep(time.Second)
		first()
		first() // as a deferred cancel after an early one
		time.Sleep(time.Second)
		synctest.Wait()
		if len(left) > 0 {
			t.Fatal("left while the runtime waits for an answer")
		}
		answered := time.Now()
		second()
		if quiet := (<-left).Sub(answered); quiet < leaveQuiet {
			t.Errorf("left %s after an answer, want %s of quiet", quiet, leaveQuiet)
		}
		_, never := l.deadline(t.Context())
		defer never()
		began := time.Now()
		l.drain()
		if waited := time.Since(began); waited < leaveAtMost || waited > leaveAtMost+leaveQuiet {
			t.Errorf("left after %s, want %s", waited, leaveAtMost)
		}
	})
}
