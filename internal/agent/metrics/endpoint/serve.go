// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// Path is where the figures are.
const Path = "/metrics"

const (
	// connections is how many there may be at once.
	connections = 16
	quietFor    = 5 * time.Second // before a request is whole
	answerIn    = 10 * time.Second
	idleFor     = 2 * time.Minute
)

// Options say where to serve, and to whom.
type Options struct {
	// Address is host:port; the host may be empty for all addresses.
	Address string
	// CertDir holds tls.crt and tls.key; empty: a certificate of the agent's
	// own.
	CertDir string
	// Name is what an own certificate is made for.
	Name string
	// Client asks the API server about tokens.
	Client kubernetes.Interface
}

// Serve answers GET of Path until ctx ends. While another process has the
// address, as the agent that this one takes over from does, it waits.
func Serve(ctx context.Context, o Options, figures http.Handler) error {
	certificate, err := certificates(o.CertDir, o.Name, time.Now())
	if err != nil {
		return fmt.Errorf("serve metrics on %s: %w", o.Address, err)
	}
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, newGate(o.Client, time.Now).guard(figures))
	server := &http.Server{
		Handler: mux, ReadTimeout: quietFor, WriteTimeout: answerIn, IdleTimeout: idleFor, MaxHeaderBytes: 16 << 10,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate},
		// One scraper, one connection: HTTP/2 would only be more to attack.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		listener, err := listen(ctx, o.Address)
		if err == nil {
			klog.FromContext(ctx).Info("serving metrics", "address", listener.Addr().String())
			err = server.ServeTLS(netutil.LimitListener(listener, connections), "", "")
		}
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "metrics are not served", "address", o.Address)
		}
	}()
	return nil
}

// listen waits while the address is taken.
func listen(ctx context.Context, address string) (net.Listener, error) {
	for told := false; ; told = true {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return listener, err
		}
		if !told {
			klog.FromContext(ctx).Info("another process has the address of metrics; waiting", "address", address)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
