// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package dhcpserver answers DHCP requests in a test's namespace. Only tests import
// it.
package dhcpserver

import (
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

// Answer is what the server changes of an offer or acknowledgement, even the type of
// the message.
type Answer func(request *dhcpv4.DHCPv4) []dhcpv4.Modifier

// Server answers, and keeps the requests.
type Server struct {
	mu     sync.Mutex
	answer Answer
	heard  []*dhcpv4.DHCPv4
}

// Serve answers on an interface of a namespace, which is up and has the server's
// address, until the test ends.
func Serve(t testing.TB, ns *hosttest.Namespace, ifname string, answer Answer) *Server {
	t.Helper()
	s := &Server{answer: answer}
	var running *server4.Server
	ns.Do(t, func() (err error) {
		running, err = server4.NewServer(ifname, &net.UDPAddr{Port: dhcpv4.ServerPort}, s.handle)
		return err
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = running.Serve() // ends with Close
	}()
	t.Cleanup(func() {
		_ = running.Close()
		<-done
	})
	return s
}

// Set replaces the answer.
func (s *Server) Set(answer Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// Last is the last request.
func (s *Server) Last() *dhcpv4.DHCPv4 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard[len(s.heard)-1]
}

// Await waits until there was a request for which is returns true.
func (s *Server) Await(t testing.TB, what string, is func(*dhcpv4.DHCPv4) bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		heard := slices.Clone(s.heard)
		s.mu.Unlock()
		if slices.ContainsFunc(heard, is) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the DHCP server has not heard %s but %s", what, heard)
		}
	}
}

func (s *Server) handle(conn net.PacketConn, peer net.Addr, m *dhcpv4.DHCPv4) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, m)
	kind := dhcpv4.MessageTypeOffer
	switch m.MessageType() {
	case dhcpv4.MessageTypeDiscover:
	case dhcpv4.MessageTypeRequest:
		kind = dhcpv4.MessageTypeAck
	default:
		return
	}
	all := append([]dhcpv4.Modifier{dhcpv4.WithReply(m), dhcpv4.WithMessageType(kind)}, s.answer(m)...)
	if answer, err := dhcpv4.New(all...); err == nil {
		_, _ = conn.WriteTo(answer.ToBytes(), peer) // without an answer a client repeats its request
	}
}
