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
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"k8s.io/apimachinery/pkg/util/wait"
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
	// Address is one that CheckAddress has nothing against.
	Address string
	// CertDir holds tls.crt and tls.key; empty: a certificate of the agent's
	// own.
	CertDir string
	// Name is what an own certificate is made for.
	Name string
	// Client asks the API server about tokens.
	Client kubernetes.Interface
}

// CheckAddress refuses what is no address to listen on: of an interface of this
// host, or of all of them where it has no host part.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	_, hostErr := netip.ParseAddr(host)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || hostErr != nil && host != "" && host != "localhost" || portErr != nil || n == 0 {
		return fmt.Errorf("%q: want ADDRESS:PORT with an IP address or localhost, or :PORT for all addresses, such as 127.0.0.1:9177", address)
	}
	return nil
}

// Serve answers GET of Path by HTTPS until ctx ends, to who may. While another
// process has the address, as the agent that this one takes over from does, it
// waits.
func Serve(ctx context.Context, o Options, figures http.Handler) error {
	certificate, err := certificates(o.CertDir, o.Name, time.Now())
	if err != nil {
		return fmt.Errorf("serve metrics on %s: %w", o.Address, err)
	}
	if err := CheckAddress(o.Address); err != nil {
		return fmt.Errorf("serve metrics: address %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, newGate(o.Client, time.Now).guard(figures))
	server := newServer(mux)
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate}
	// One scraper, one connection: HTTP/2 would only be more to attack.
	server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	start(ctx, o.Address, server, func(l net.Listener) error { return server.ServeTLS(l, "", "") })
	return nil
}

// ServePlain answers by HTTP until ctx ends, to whoever reaches the address, which
// CheckAddress has nothing against. It waits as Serve does.
func ServePlain(ctx context.Context, address string, handler http.Handler) {
	server := newServer(handler)
	start(ctx, address, server, server.Serve)
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadTimeout: quietFor, WriteTimeout: answerIn, IdleTimeout: idleFor, MaxHeaderBytes: 16 << 10}
}

func start(ctx context.Context, address string, server *http.Server, serve func(net.Listener) error) {
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		listener, err := listen(ctx, address)
		if err == nil {
			klog.FromContext(ctx).Info("serving metrics", "address", listener.Addr().String())
			err = serve(netutil.LimitListener(listener, connections))
		}
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "metrics are not served", "address", address)
		}
	}()
}

// listen waits while the address is taken.
func listen(ctx context.Context, address string) (listener net.Listener, err error) {
	logged := false
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return true, err
		}
		if !logged {
			klog.FromContext(ctx).Info("another process has the address of metrics; waiting", "address", address)
		}
		logged = true
		return false, nil
	})
	return listener, err
}
