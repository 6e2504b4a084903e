// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

const (
	// answerWithin is how long pods are waited for at a look, all together. A look
	// into one takes less than a millisecond.
	answerWithin = 3 * time.Second
	// maxUnanswered bounds the looks that nobody waits for any more: each holds a
	// thread until it is answered.
	maxUnanswered = 32
)

// ErrUnanswered says that a pod does not let itself be looked into: a file system
// of it, or what its memory is mapped to, does not answer.
var ErrUnanswered = errors.New("the pod's file system or memory does not answer")

// lookouts are looks into pods, by UID: at most one for each pod, however long it
// takes. A system call that waits for a pod's file system cannot be called back.
type lookouts map[string]*lookout

// lookout is one look into a pod.
type lookout struct {
	since time.Time
	// late is true when nobody waits for it any more.
	late  bool
	views []view // once done is closed
	done  chan struct{}
}

func (o *lookout) answered() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// start begins a look into a pod, unless one is still under way, or too many.
func (l lookouts) start(uid string, look func() []view) {
	if l[uid] != nil || l.late() >= maxUnanswered {
		return
	}
	one := &lookout{since: time.Now(), done: make(chan struct{})}
	l[uid] = one
	go func() {
		defer close(one.done)
		one.views = look()
	}()
}

// await waits for what was started until ctx ends; but not for a look that is late
// already.
func (l lookouts) await(ctx context.Context, uid string) ([]view, error) {
	one := l[uid]
	if one == nil {
		return nil, fmt.Errorf("not looked into, for %d pods keep a look waiting: %w", l.late(), ErrUnanswered)
	}
	if !one.late {
		select {
		case <-one.done:
		case <-ctx.Done():
		}
		one.late = !one.answered()
	}
	if one.late {
		return nil, fmt.Errorf("looked into at %s: %w", one.since.UTC().Format(time.RFC3339), ErrUnanswered)
	}
	delete(l, uid)
	return one.views, nil
}

// forget drops looks that were answered after all: what they saw is old.
func (l lookouts) forget() {
	maps.DeleteFunc(l, func(_ string, one *lookout) bool { return one.late && one.answered() })
}

// late is how many looks nobody waits for any more.
func (l lookouts) late() int {
	n := 0
	for _, one := range l {
		if one.late {
			n++
		}
	}
	return n
}
