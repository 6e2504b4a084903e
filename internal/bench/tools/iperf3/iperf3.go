// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package iperf3

import (
	"fmt"
	"io"

	"plumbline.dev/plumbline/internal/bench/tools"
)

// Result is one run.
type Result struct {
	// Version is the program's, such as iperf 3.12.
	Version string
	// Protocol is TCP, UDP or SCTP.
	Protocol string
	Streams  int
	// Reverse says that the server sent.
	Reverse bool
	// Received is what the receiver got, in both directions together where there were two.
	Received tools.Figure
	// Retransmits is how many segments the sender sent again; nil where nobody counted.
	Retransmits *int64
}

type document struct {
	Error string `json:"error"`
	Start struct {
		Version string `json:"version"`
		Test    *struct {
			Protocol string `json:"protocol"`
			Streams  int    `json:"num_streams"`
			Reverse  int    `json:"reverse"`
		} `json:"test_start"`
	} `json:"start"`
	End struct {
		Sent            *sum `json:"sum_sent"`
		Received        *sum `json:"sum_received"`
		ReceivedReverse *sum `json:"sum_received_bidir_reverse"`
		SentReverse     *sum `json:"sum_sent_bidir_reverse"`
	} `json:"end"`
}

type sum struct {
	Seconds     float64 `json:"seconds"`
	Bytes       float64 `json:"bytes"`
	Rate        float64 `json:"bits_per_second"`
	Retransmits *int64  `json:"retransmits"`
}

// Parse reads one document.
func Parse(r io.Reader) (*Result, error) {
	var d document
	if err := tools.JSON(r, &d); err != nil {
		return nil, fmt.Errorf("iperf3 -J: %w", err)
	}
	if d.Error != "" {
		return nil, fmt.Errorf("iperf3 -J: %w: %s", tools.ErrFailed, tools.Quote(d.Error))
	}
	if d.Start.Test == nil {
		return nil, fmt.Errorf("iperf3 -J: %w: the object has no start.test_start", tools.ErrFormat)
	}
	if d.End.Received == nil {
		return nil, fmt.Errorf("iperf3 -J: %w: the object has no end.sum_received, and what the sender wrote is no answer", tools.ErrMissing)
	}
	result := &Result{
		Version: d.Start.Version, Protocol: d.Start.Test.Protocol, Streams: d.Start.Test.Streams, Reverse: d.Start.Test.Reverse != 0,
		Received: tools.Figure{Name: "received", Unit: "Gbit/s", HigherIsBetter: true},
	}
	for _, direction := range []struct{ received, sent *sum }{
		{d.End.Received, d.End.Sent}, {d.End.ReceivedReverse, d.End.SentReverse},
	} {
		if direction.received == nil {
			continue
		}
		if err := direction.received.check(); err != nil {
			return nil, fmt.Errorf("iperf3 -J: %w", err)
		}
		result.Received.Value += direction.received.Rate / 1e9
		if direction.sent != nil && direction.sent.Retransmits != nil {
			all := *direction.sent.Retransmits
			if result.Retransmits != nil {
				all += *result.Retransmits
			}
			result.Retransmits = &all
		}
	}
	return result, nil
}

// check refuses a rate that is none, or that its own bytes and seconds contradict by more
// than their rounding can.
func (s *sum) check() error {
	figure := tools.Figure{Name: "bits_per_second", Unit: "bit/s", Value: s.Rate}
	if err := figure.Check(); err != nil {
		return err
	}
	if s.Seconds <= 0 || !tools.Agree(s.Rate, s.Bytes*8/s.Seconds, 0.01) {
		return fmt.Errorf("bits_per_second is %v: %w: %v bytes in %v seconds are not that", s.Rate, tools.ErrValue, s.Bytes, s.Seconds)
	}
	return nil
}
