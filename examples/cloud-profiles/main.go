// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	socket := flag.String("socket", "/run/cloud-profiles.sock", "where the agent reaches this server: --webhook-url=unix://PATH")
	profiles := flag.String("profiles", "/etc/cloud-profiles.json", "what each profile stands for")
	state := flag.String("state", "/var/lib/cloud-profiles/given.json", "who has which address")
	metadata := flag.String("metadata", "http://100.100.100.200", "the metadata service that knows the secondary addresses of NICs")
	flag.Parse()
	if err := run(*socket, *profiles, *state, *metadata); err != nil {
		fmt.Fprintln(os.Stderr, "cloud-profiles:", err)
		os.Exit(1)
	}
}

func run(socket, profiles, state, metadata string) error {
	text, err := os.ReadFile(profiles)
	if err != nil {
		return err
	}
	known, err := readProfiles(text)
	if err != nil {
		return fmt.Errorf("read %s: %w", profiles, err)
	}
	s := &server{profiles: known, hostAddresses: hostAddresses, secondary: secondaryAddresses(metadata)}
	if s.given, err = openGiven(state); err != nil {
		return err
	}
	// A server that was killed leaves its socket.
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(socket, 0o600); err != nil { // who may ask may take addresses
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	web := &http.Server{Handler: s.handler(), ReadTimeout: requestLimit, WriteTimeout: requestLimit}
	go func() {
		<-ctx.Done()
		_ = web.Close()
	}()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// requestLimit is what the agent gives an answer.
const requestLimit = 10 * time.Second
