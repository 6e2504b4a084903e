// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
	"k8s.io/klog/v2"
)

const (
	// The plugin is "00-plumbline": first, so that others see its changes.
	nriName  = "plumbline"
	nriIndex = "00"
	// hookReserve is kept of the runtime's limit to answer in.
	hookReserve = 300 * time.Millisecond
	// leaveQuiet is how long the runtime must have asked nothing before the agent
	// leaves, leaveAtMost how long the agent waits for that.
	leaveQuiet      = 20 * time.Millisecond
	leaveAtMost     = 5 * time.Second
	nriBackOffFirst = 100 * time.Millisecond
	nriBackOffMost  = 5 * time.Second
)

// link keeps the agent connected to the container runtime, for ever.
type link struct {
	socket string

	mu         sync.Mutex
	stub       stub.Stub
	problem    error  // nil once connected and synchronised
	generation uint64 // of the connection: changes when one comes or goes
	joined     chan struct{}
	joinOnce   sync.Once
	answering  int       // hooks that the runtime waits for
	answered   time.Time // when the last one was
}

func newLink(socket string) *link {
	return &link{socket: socket, problem: errors.New("not tried yet"), joined: make(chan struct{})}
}

// ready says why hooks do not reach the agent, or nil.
func (l *link) ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.problem == nil {
		return nil
	}
	return fmt.Errorf("the container runtime is not connected and synchronised through %s: %w; want NRI enabled in the runtime's configuration, prepared again when it is", l.socket, l.problem)
}

func (l *link) set(s stub.Stub, problem error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stub, l.problem = s, problem
	l.generation++
}

// begin is called at the start of Synchronize, and synced at its end. A connection that was lost meanwhile stays lost.
func (l *link) begin() (synced func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	generation := l.generation
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.stub == nil || l.generation != generation {
			return
		}
		l.problem = nil
		l.joinOnce.Do(func() { close(l.joined) })
	}
}

// deadline begins a hook: it is the runtime's request time-out less the time to
// answer in. The hook has ended when cancel is called.
func (l *link) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := stub.DefaultRequestTimeout
	if l.stub != nil {
		limit = l.stub.RequestTimeout()
	}
	l.answering++
	ctx, cancel := context.WithTimeout(ctx, limit-hookReserve)
	var once sync.Once
	return ctx, func() {
		cancel()
		once.Do(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.answering--
			l.answered = time.Now()
		})
	}
}

// drain waits for a moment in which the runtime waits for no answer. The runtime
// fails what it has asked a plugin that leaves, and it cannot be told to ask no
// more; it asks one thing at a time, so that moment is between two pods.
func (l *link) drain() {
	for end := time.Now().Add(leaveAtMost); time.Now().Before(end); time.Sleep(leaveQuiet / 10) {
		l.mu.Lock()
		quiet := l.answering == 0 && time.Since(l.answered) > leaveQuiet
		l.mu.Unlock()
		if quiet {
			return
		}
	}
}

// update moves running containers. Never from within a hook: the runtime
// answers only after the hook has returned.
func (l *link) update(updates []*api.ContainerUpdate) error {
	l.mu.Lock()
	s, problem := l.stub, l.problem
	l.mu.Unlock()
	if problem != nil {
		return problem
	}
	if s == nil {
		return fmt.Errorf("update %d containers: not connected to the container runtime", len(updates))
	}
	failed, err := s.UpdateContainers(updates)
	if err != nil {
		return fmt.Errorf("update %d containers: %w", len(updates), err)
	}
	if len(failed) > 0 {
		return fmt.Errorf("update %d containers: the runtime refused %d, the first %s", len(updates), len(failed), failed[0].GetContainerId())
	}
	return nil
}

// run connects, and connects again whenever the runtime went away.
func (l *link) run(ctx context.Context, plugin any) {
	logger := klog.FromContext(ctx).WithName("nri")
	wait := nriBackOffFirst
	for ctx.Err() == nil {
		connected, err := l.session(klog.NewContext(ctx, logger), plugin)
		if connected {
			wait = nriBackOffFirst
		}
		l.set(nil, err)
		if ctx.Err() != nil {
			return
		}
		logger.Info("not connected to the container runtime", "reason", err.Error(), "retryIn", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, nriBackOffMost)
	}
}

// session is one connection, from dialling to its end.
func (l *link) session(ctx context.Context, plugin any) (connected bool, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", l.socket)
	if err != nil {
		return false, err
	}
	beginning := newHandshake()
	closed := make(chan struct{})
	var once sync.Once
	s, err := stub.New(plugin,
		stub.WithPluginName(nriName), stub.WithPluginIdx(nriIndex),
		stub.WithConnection(trunk{conn, beginning.lose}),
		stub.WithTTRPCOptions(beginning.options()),
		stub.WithOnClose(func() { once.Do(func() { close(closed) }) }),
		stub.WithLogger(nriLogger{klog.FromContext(ctx)}),
		// Runtimes that know the policy fail a pod rather than run it without
		// its device; older ones ignore it.
		stub.WithFailurePolicy(&api.FailurePolicy{FailRequest: true, KeepConnected: true}),
	)
	if err != nil {
		return false, errors.Join(err, conn.Close())
	}
	l.set(s, errors.New("waiting for the runtime to say what it runs"))
	unwatch := context.AfterFunc(ctx, beginning.lose)
	// Hooks get the context: those that are in flight when the agent is told to
	// stop are answered.
	err = s.Start(context.WithoutCancel(ctx))
	unwatch()
	if err != nil {
		_ = conn.Close() // as Start does, if it came to use it
		return false, err
	}
	select {
	case <-closed:
		return true, errors.New("the runtime closed the connection")
	case <-ctx.Done():
		l.drain()
		s.Stop()
		return true, ctx.Err()
	}
}

// handshake is the beginning of a connection: the plugin registers, and the
// runtime configures it. The library's Start waits for the second without looking
// at the connection (nri/pkg/stub), and would wait for ever where that has gone.
// So the call to register, which has a limit, does not return before the runtime
// has configured the plugin, and fails where it will not.
type handshake struct {
	configured, lost         chan struct{}
	onceConfigured, onceLost sync.Once
}

func newHandshake() *handshake {
	return &handshake{configured: make(chan struct{}), lost: make(chan struct{})}
}

// lose says that there is nothing to wait for any more.
func (h *handshake) lose() { h.onceLost.Do(func() { close(h.lost) }) }

// options are for the two halves of the connection.
func (h *handshake) options() ([]ttrpc.ClientOpts, []ttrpc.ServerOpt) {
	return []ttrpc.ClientOpts{ttrpc.WithUnaryClientInterceptor(h.call)}, []ttrpc.ServerOpt{ttrpc.WithUnaryServerInterceptor(h.answer)}
}

func (h *handshake) call(ctx context.Context, req *ttrpc.Request, resp *ttrpc.Response, info *ttrpc.UnaryClientInfo, call ttrpc.Invoker) error {
	if err := call(ctx, req, resp); err != nil || !strings.HasSuffix(info.FullMethod, "/RegisterPlugin") {
		return err
	}
	select {
	case <-h.configured:
		return nil
	case <-h.lost:
		return errors.New("the connection ended before the runtime configured the plugin")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *handshake) answer(ctx context.Context, request ttrpc.Unmarshaler, info *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	answer, err := method(ctx, request)
	if strings.HasSuffix(info.FullMethod, "/Configure") {
		h.onceConfigured.Do(func() { close(h.configured) })
	}
	return answer, err
}

// trunk is a connection that says when it can be read no more.
type trunk struct {
	net.Conn
	lost func()
}

func (t trunk) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if err != nil {
		t.lost()
	}
	return n, err
}

// nriLogger puts the library's messages into the agent's log.
type nriLogger struct{ logger klog.Logger }

func (l nriLogger) Debugf(_ context.Context, format string, args ...any) {
	l.logger.V(5).Info(fmt.Sprintf(format, args...))
}

func (l nriLogger) Infof(_ context.Context, format string, args ...any) {
	l.logger.V(3).Info(fmt.Sprintf(format, args...))
}

func (l nriLogger) Warnf(_ context.Context, format string, args ...any) {
	l.logger.Info(fmt.Sprintf(format, args...))
}

func (l nriLogger) Errorf(_ context.Context, format string, args ...any) {
	l.logger.Error(nil, fmt.Sprintf(format, args...))
}
