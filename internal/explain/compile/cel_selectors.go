// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"context"
	"fmt"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

const (
	// selectorsKept is how many compiled selectors are kept.
	selectorsKept = 1000
	// resultsKept is how many results are kept: enough for the devices of a few
	// nodes, which are looked at again and again when fixes are tried.
	resultsKept = 20_000
)

// Selectors evaluates selectors and keeps what it found. One does for all
// clusters made of the same slices, which must not change. It may be used by
// several goroutines.
type Selectors struct {
	compiled *cel.Cache
	mutex    sync.Mutex
	results  map[resultKey]result
}

// resultKey is an expression and a device.
type resultKey struct {
	expression string
	device     *resourceapi.Device
}

type result struct {
	matches bool
	err     error
}

// NewSelectors makes a store of selectors. What is stored in an API server is
// compiled with all that any feature gate allows.
func NewSelectors() *Selectors {
	return &Selectors{
		compiled: cel.NewCache(selectorsKept, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}),
		results:  map[resultKey]result{},
	}
}

// Compiled are the compiled selectors.
func (s *Selectors) Compiled() *cel.Cache { return s.compiled }

// evaluate says whether a selector matches a device. An error is the library's:
// the allocation ends when it comes to the device.
func (s *Selectors) evaluate(ctx context.Context, expression string, d *Device) (bool, error) {
	key := resultKey{expression, d.Device}
	s.mutex.Lock()
	r, seen := s.results[key]
	s.mutex.Unlock()
	if seen {
		return r.matches, r.err
	}
	if compiled := s.compiled.GetOrCompile(expression); compiled.Error != nil {
		r.err = fmt.Errorf("it does not compile: %w", compiled.Error)
	} else {
		r.matches, _, r.err = compiled.DeviceMatches(ctx, cel.Device{
			Driver: d.ID.Driver, AllowMultipleAllocations: d.Device.AllowMultipleAllocations,
			Attributes: d.Device.Attributes, Capacity: d.Device.Capacity,
		})
	}
	if ctx.Err() != nil {
		return r.matches, r.err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.results) >= resultsKept {
		clear(s.results) // nodes are compiled one after the other: old results are not needed again
	}
	s.results[key] = r
	return r.matches, r.err
}
