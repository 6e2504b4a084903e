// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import "sync"

// source is where a value is read at each scrape, instead of a copy kept here.
type source[T any] struct {
	mu   sync.Mutex
	read func() T // nil before set
}

func (s *source[T]) set(read func() T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = read
}

// now reads the value; not ok before set.
func (s *source[T]) now() (value T, ok bool) {
	s.mu.Lock()
	read := s.read
	s.mu.Unlock()
	if read == nil {
		return value, false
	}
	return read(), true
}
