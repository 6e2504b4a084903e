// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"
)

// What is wrong with what an administrator says is told before anything is touched,
// by the flag's name, its value, and what would be right.
func TestWrongOptions(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*Options)
		want string
	}{
		{"all is well", func(*Options) {}, ""},
		{"and said", func(o *Options) {
			o.BindAddress, o.MetricsAddress, o.DeviceTaints = "127.0.0.1:9177", ":9178", TaintNone
			o.Filter, o.AllowInterfaces, o.MoveIBInterfaces = `"dra.net/rdma" in attributes`, []string{"nic*"}, false
		}, ""},
		{"no node", func(o *Options) { o.NodeName = "" }, "--node-name: want the name of the node"},
		{"no address to listen on", func(o *Options) { o.BindAddress = "9177" }, `--bind-address: "9177": want ADDRESS:PORT`},
		{"nor for metrics", func(o *Options) { o.MetricsAddress = "node-1:9178" }, `--metrics-address: "node-1:9178": want ADDRESS:PORT`},
		{"one address for both", func(o *Options) { o.BindAddress, o.MetricsAddress = ":9178", ":9178" }, "--bind-address=:9178: is that of --metrics-address, which is served by HTTPS: want another port"},
		{"a taint there is not", func(o *Options) { o.DeviceTaints = "PreferNoSchedule" }, `--device-taints="PreferNoSchedule": want None, NoSchedule, NoExecute`},
		{"an expression that is none", func(o *Options) { o.Filter = "attributes[" }, `--filter: "attributes[": want a CEL expression over attributes`},
		{"an expression of another type", func(o *Options) { o.Filter = "1" }, `--filter: "1": want an expression that is true or false`},
		{"a kind of nothing", func(o *Options) { o.AllowInterfaces = []string{"kind:"} }, `--allow-interfaces: "kind:": want the name of an interface`},
		{"an interval too short", func(o *Options) { o.VerifyInterval = 1 }, "--verify-interval=1ns: want 1s or more"},
		{"an interval of host reports too short", func(o *Options) { o.HostReportInterval = 1 }, "--host-report-interval=1ns: want 10s or more"},
		{"a path from somewhere", func(o *Options) { o.StateDir = "state" }, `--state-dir="state": want an absolute path`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := DefaultOptions()
			o.NodeName = "node-1"
			tt.set(&o)
			err := o.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
