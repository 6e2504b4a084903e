// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"net"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"

	"plumbline.dev/plumbline/internal/agent/agenttest"
)

// dying is a runtime that hears of a plugin, and dies before it configures it.
type dying struct {
	api.RuntimeService
	registered chan struct{}
}

func (d dying) RegisterPlugin(context.Context, *api.RegisterPluginRequest) (*api.Empty, error) {
	close(d.registered)
	return &api.Empty{}, nil
}

// serve takes one connection. It dies once its answer is on its way, or before.
func (d dying) serve(t *testing.T, conn net.Conn, answers bool) {
	// What comes before there is a listener for it would be dropped, as the plugin's call is
	// on a busy host.
	trunk := multiplex.Multiplex(conn, multiplex.WithBlockedRead())
	listener, err := trunk.Listen(multiplex.RuntimeServiceConn)
	if err != nil {
		t.Error(err)
		return
	}
	trunk.Unblock()
	server, err := ttrpc.NewServer()
	if err != nil {
		t.Error(err)
		return
	}
	api.RegisterRuntimeService(server, d)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(context.Background(), listener) }()
	<-d.registered
	if answers {
		_ = server.Shutdown(context.Background()) // sends what it owes
	}
	_ = trunk.Close()
	_ = server.Close()
	<-served
}

// A runtime that dies between Register and Configure leaves nothing behind in the
// agent, which tries again for as long as it takes.
func TestConnectionThatDiesBeforeItIsConfigured(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "nri.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	l := newLink(socket)
	before := runtime.NumGoroutine()
	for i := range 20 {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			conn, err := listener.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			dying{registered: make(chan struct{})}.serve(t, conn, i%2 == 0)
		}()
		if connected, err := l.session(t.Context(), &hooks{}); connected || err == nil {
			t.Fatalf("connected %t, error %v; want the reason why not", connected, err)
		}
		<-ended
	}
	agenttest.Eventually(t, "every goroutine of the lost connections ends", func() bool { return runtime.NumGoroutine() <= before })
}
