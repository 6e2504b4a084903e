// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import "sync"

// asked is a figure that is read where it is kept, whenever somebody wants it.
type asked[T any] struct {
	mu  sync.Mutex
	ask func() T // nil before anybody said where
}

func (a *asked[T]) set(ask func() T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ask = ask
}

// now reads the figure; not ok where nobody keeps it.
func (a *asked[T]) now() (figure T, ok bool) {
	a.mu.Lock()
	ask := a.ask
	a.mu.Unlock()
	if ask == nil {
		return figure, false
	}
	return ask(), true
}
