// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// forwardPorts lets the node reach the API server, and the API server the kubelet:
// each network has a listener for a port of the other, and no route leads from one
// to the other.
func forwardPorts(ctx context.Context, pid int, p Plan) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer func() { _ = namespace.Close() }()
	inside := func(network, address string, listen bool) (l net.Listener, c net.Conn, err error) {
		err = within(namespace, func() error {
			if listen {
				l, err = net.Listen(network, address)
			} else {
				c, err = net.DialTimeout(network, address, 10*time.Second)
			}
			return err
		})
		return l, c, err
	}
	api := net.JoinHostPort(hostAddress, strconv.Itoa(p.APIPort))
	fromNode, err := listenInside(ctx, api, inside)
	if err != nil {
		return fmt.Errorf("forward the node's connections: %w", err)
	}
	kubelet, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.KubeletPort)))
	if err != nil {
		return fmt.Errorf("forward the API server's connections: %w", err)
	}
	go serve(ctx, fromNode, func() (net.Conn, error) {
		return net.DialTimeout("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.APIPort)), 10*time.Second)
	})
	serve(ctx, kubelet, func() (net.Conn, error) {
		_, c, err := inside("tcp4", net.JoinHostPort(nodeAddress, strconv.Itoa(p.KubeletPort)), false)
		return c, err
	})
	return nil
}

// listenInside waits for the node to give itself the address.
func listenInside(ctx context.Context, address string, inside func(string, string, bool) (net.Listener, net.Conn, error)) (net.Listener, error) {
	for {
		l, _, err := inside("tcp4", address, true)
		if !errors.Is(err, unix.EADDRNOTAVAIL) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// within runs fn on a thread in the network namespace. A socket belongs to the
// namespace it was made in, whoever uses it later. The thread ends with fn.
func within(namespace *os.File, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is not to be used again
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("setns: %w", err)
			return
		}
		done <- fn()
	}()
	return <-done
}

func serve(ctx context.Context, l net.Listener, dial func() (net.Conn, error)) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = in.Close() }()
			out, err := dial()
			if err != nil {
				return // the caller sees a closed connection
			}
			defer func() { _ = out.Close() }()
			ended := make(chan struct{}, 2)
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					ended <- struct{}{}
				}()
			}
			<-ended
		}()
	}
}
