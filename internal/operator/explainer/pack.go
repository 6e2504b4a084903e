// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
)

// packed is a slice of a node whose devices are kept as the API server sent them,
// compressed. Devices of thousands of nodes are much alike, and are looked at one
// node at a time: unpacked they would be fifty times as large.
type packed struct {
	resourceapi.ResourceSlice
	devices []byte
}

// pack takes a slice's devices out. Those that several nodes can reach would be
// unpacked for each of them, and stay.
func pack(slice *resourceapi.ResourceSlice) (any, error) {
	if slice.Spec.NodeName == nil || *slice.Spec.NodeName == "" || len(slice.Spec.Devices) == 0 {
		return slice, nil
	}
	alone := resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Devices: slice.Spec.Devices}}
	text, err := alone.Marshal()
	if err != nil {
		return nil, fmt.Errorf("keep ResourceSlice %s: %w", slice.Name, err)
	}
	b, err := compress(text)
	if err != nil {
		return nil, fmt.Errorf("keep ResourceSlice %s: %w", slice.Name, err)
	}
	p := &packed{ResourceSlice: *slice, devices: b}
	p.Spec.Devices = nil
	return p, nil
}

// writers are used again: each has half a megabyte of tables.
var writers = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(io.Discard, flate.BestSpeed) // the level is a valid one
	return w
}}

func compress(text []byte) ([]byte, error) {
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	var b bytes.Buffer
	w.Reset(&b)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(b.Bytes()), nil
}

// unpack puts the devices back into a copy.
func (p *packed) unpack() (*resourceapi.ResourceSlice, error) {
	text, err := io.ReadAll(flate.NewReader(bytes.NewReader(p.devices)))
	if err != nil {
		return nil, fmt.Errorf("read ResourceSlice %s: %w", p.Name, err)
	}
	var alone resourceapi.ResourceSlice
	if err := alone.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("read ResourceSlice %s: %w", p.Name, err)
	}
	whole := p.ResourceSlice
	whole.Spec.Devices = alone.Spec.Devices
	return &whole, nil
}
