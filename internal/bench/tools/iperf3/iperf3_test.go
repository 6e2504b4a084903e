// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package iperf3_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/bench/tools"
	"plumbline.dev/plumbline/internal/bench/tools/iperf3"
	"plumbline.dev/plumbline/internal/bench/tools/toolstest"
)

// The files were written by Debian 12's iperf3 over loopback.
func TestParse(t *testing.T) {
	gbits := func(value float64) tools.Figure { return toolstest.Gbits("received", value) }
	for name, want := range map[string]iperf3.Result{
		// The sender wrote 14.54 Gbit/s.
		"client":         {Protocol: "TCP", Streams: 1, Received: gbits(14.481002066629575), Retransmits: ptr.To(int64(7))},
		"client-p2":      {Protocol: "TCP", Streams: 2, Received: gbits(9.150020412933387), Retransmits: ptr.To(int64(18))},
		"client-reverse": {Protocol: "TCP", Streams: 1, Reverse: true, Received: gbits(9.24489171999996), Retransmits: ptr.To(int64(8))},
		"client-udp":     {Protocol: "UDP", Streams: 1, Received: gbits(0.009955966350608114)},
		"client-bidir":   {Protocol: "TCP", Streams: 1, Received: gbits(14.276423710948201), Retransmits: ptr.To(int64(8))},
	} {
		want.Version = "iperf 3.12"
		got, err := iperf3.Parse(strings.NewReader(toolstest.File(t, name+".json")))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(&want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRefuses(t *testing.T) {
	whole := toolstest.File(t, "client.json")
	toolstest.Refuses(t, iperf3.Parse, toolstest.Refusals{
		{"nobody listens", toolstest.File(t, "refused.json"), tools.ErrFailed, "unable to connect to server: Connection refused"},
		{"an error after figures", strings.TrimSuffix(strings.TrimSpace(whole), "}") + `, "error": "the server has \u001b[2Jterminated"}`, tools.ErrFailed, "�[2Jterminated"},
		{"cut", whole[:len(whole)/2], tools.ErrCut, "no end"},
		{"nothing", "", tools.ErrCut, "empty"},
		{"no -J", "Connecting to host 10.0.0.1, port 5201\n", tools.ErrFormat, "no JSON object"},
		{"two runs", whole + whole, tools.ErrFormat, "follows"},
		{"another tool's", `{"nvbandwidth":{}}`, tools.ErrFormat, "test_start"},
		{"no receiver", strings.Replace(whole, "sum_received", "sum_guessed", 1), tools.ErrMissing, "sum_received"},
		{"zero", `{"start":{"test_start":{}},"end":{"sum_received":{"seconds":1,"bytes":0,"bits_per_second":0}}}`, tools.ErrValue, "above 0"},
		{"no time", `{"start":{"test_start":{}},"end":{"sum_received":{"seconds":0,"bytes":1,"bits_per_second":8}}}`, tools.ErrValue, "0 seconds"},
		{"a rate that its bytes contradict", `{"start":{"test_start":{}},"end":{"sum_received":{"seconds":1,"bytes":100,"bits_per_second":900}}}`, tools.ErrValue, "100 bytes in 1 seconds"},
		{"the other direction's zero", `{"start":{"test_start":{}},"end":{"sum_received":{"seconds":1,"bytes":1,"bits_per_second":8},"sum_received_bidir_reverse":{}}}`, tools.ErrValue, "above 0"},
		{"a number too large", `{"start":{"test_start":{}},"end":{"sum_received":{"seconds":1,"bytes":1,"bits_per_second":1e999}}}`, tools.ErrFormat, "another type"},
	})
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"client.json", "client-bidir.json", "client-udp.json", "refused.json"} {
		f.Add(toolstest.File(f, name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := iperf3.Parse(strings.NewReader(text))
		if (r == nil) == (err == nil) {
			t.Fatalf("%+v and %v", r, err)
		}
		if r != nil && (math.IsNaN(r.Received.Value) || r.Received.Value <= 0) {
			t.Errorf("%+v", r)
		}
	})
}
