// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

const (
	// answerWithin is how long a scan waits for pods, all together. Reading one takes
	// less than a millisecond.
	answerWithin = 3 * time.Second
	// maxUnanswered bounds the reads that were given up: each holds a thread until it
	// is answered.
	maxUnanswered = 32
)

// ErrUnanswered says that a pod cannot be read: a file system
// of it, or what its memory is mapped to, does not answer.
var ErrUnanswered = errors.New("the pod's file system or memory does not answer")

// pendingViews are reads under way, by the pod's UID: at most one for each pod, however
// long it takes. A system call that waits for a pod's file system cannot be cancelled.
type pendingViews map[string]*pendingView

// pendingView is the read of one pod's own files.
type pendingView struct {
	since time.Time
	// late is true when it was given up.
	late  bool
	views []view // once done is closed
	done  chan struct{}
}

func (o *pendingView) answered() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// start begins to read a pod, unless that is still under way, or too many are.
func (l pendingViews) start(uid string, read func() []view) {
	if l[uid] != nil || l.late() >= maxUnanswered {
		return
	}
	one := &pendingView{since: time.Now(), done: make(chan struct{})}
	l[uid] = one
	go func() {
		defer close(one.done)
		one.views = read()
	}()
}

// await waits for what was started until ctx ends; but not for a read that was given
// up already.
func (l pendingViews) await(ctx context.Context, uid string) ([]view, error) {
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

// forget drops reads that were answered after all: what they saw is old.
func (l pendingViews) forget() {
	maps.DeleteFunc(l, func(_ string, one *pendingView) bool { return one.late && one.answered() })
}

// late is how many reads were given up and are not answered yet.
func (l pendingViews) late() int {
	n := 0
	for _, one := range l {
		if one.late {
			n++
		}
	}
	return n
}
