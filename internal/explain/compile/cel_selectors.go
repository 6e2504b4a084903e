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

// resultKey is an expression, which may be that of a derived attribute, and a device.
type resultKey struct {
	expression string
	derived    bool
	device     *resourceapi.Device
}

// result is that of a selector, or what is derived.
type result struct {
	matches bool
	derived *resourceapi.DeviceAttribute
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
	r := s.kept(ctx, resultKey{expression, false, d.Device}, func() (r result) {
		if compiled := s.compiled.GetOrCompile(expression); compiled.Error != nil {
			r.err = fmt.Errorf("it does not compile: %w", compiled.Error)
		} else {
			r.matches, _, r.err = compiled.DeviceMatches(ctx, input(d))
		}
		return r
	})
	return r.matches, r.err
}

// derive is what the expression of a derived attribute makes of a device. An error is
// the library's, as of evaluate.
func (s *Selectors) derive(ctx context.Context, expression string, d *Device) (*resourceapi.DeviceAttribute, error) {
	r := s.kept(ctx, resultKey{expression, true, d.Device}, func() (r result) {
		if compiled := s.compiled.GetOrCompileDerivedAttribute(expression); compiled.Error != nil {
			r.err = fmt.Errorf("it does not compile: %w", compiled.Error)
		} else {
			r.derived, _, r.err = compiled.EvaluateDerivedAttribute(ctx, input(d))
		}
		return r
	})
	return r.derived, r.err
}

// input is a device as expressions see it.
func input(d *Device) cel.Device {
	return cel.Device{
		Driver: d.ID.Driver, AllowMultipleAllocations: d.Device.AllowMultipleAllocations,
		Attributes: d.Device.Attributes, Capacity: d.Device.Capacity,
	}
}

// kept is the result that is known of an expression and a device, or is found now.
func (s *Selectors) kept(ctx context.Context, key resultKey, find func() result) result {
	s.mutex.Lock()
	r, seen := s.results[key]
	s.mutex.Unlock()
	if seen {
		return r
	}
	r = find()
	if ctx.Err() != nil {
		return r
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.results) >= resultsKept {
		clear(s.results) // nodes are compiled one after the other: old results are not needed again
	}
	s.results[key] = r
	return r
}
