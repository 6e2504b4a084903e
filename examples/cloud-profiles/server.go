// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
)

// server answers what the agent of this node asks.
type server struct {
	profiles map[string]profile
	// hostAddresses are those of an interface, secondary those that the cloud has for a NIC
	// beside its first.
	hostAddresses func(name string) ([]netip.Prefix, error)
	secondary     func(ctx context.Context, mac string) ([]netip.Prefix, error)

	mu    sync.Mutex // two claims must not be given one address
	given *given
}

// question is as much as this server reads of what it is asked.
type question struct {
	Device struct {
		MAC  string `json:"mac_address"`
		Name string `json:"name"`
	} `json:"device"`
	// Claim is of /GetProfileConfig, ClaimUID of /ReleaseProfileConfig.
	Claim struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	} `json:"claim"`
	ClaimUID string `json:"claim_uid"`
	ShareID  string `json:"share_id"`
	Config   struct {
		Profile string `json:"profile"`
	} `json:"config"`
}

// answer is the layer of parameters of one share. The type makes sure that it is one: a
// claim that was allocated a whole NIC is refused.
type answer struct {
	Interface struct {
		Type      string         `json:"type"`
		Addresses []netip.Prefix `json:"addresses"`
	} `json:"interface"`
}

// handler serves the paths of the protocol that resolve profiles. The others are not found,
// which says that there is nothing of the kind.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]bool{"cloudProvider": false, "profileProvider": true})
	})
	mux.HandleFunc("POST /GetProfileConfig", s.resolve)
	mux.HandleFunc("POST /ReleaseProfileConfig", s.release)
	return mux
}

func (s *server) resolve(w http.ResponseWriter, r *http.Request) {
	q, ok := ask(w, r)
	if !ok {
		return
	}
	p, known := s.profiles[q.Config.Profile]
	switch {
	case !known:
		http.Error(w, fmt.Sprintf("profile %q is not one of this server's", q.Config.Profile), http.StatusNotFound)
		return
	case q.Claim.Metadata.UID == "" || q.ShareID == "":
		http.Error(w, "want a share of a NIC: claim.metadata.uid and share_id", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	candidates, err := s.candidates(r.Context(), p, q)
	if err != nil {
		http.Error(w, fmt.Sprintf("interface %s: %v", q.Device.Name, err), http.StatusInternalServerError)
		return
	}
	address, err := s.given.take(q.Claim.Metadata.UID+"/"+q.ShareID, candidates)
	if err != nil {
		http.Error(w, fmt.Sprintf("interface %s: %v", q.Device.Name, err), http.StatusConflict)
		return
	}
	var a answer
	a.Interface.Type, a.Interface.Addresses = "ipvlan", []netip.Prefix{address}
	reply(w, a)
}

func (s *server) candidates(ctx context.Context, p profile, q question) ([]netip.Prefix, error) {
	if p.Secondary {
		return s.secondary(ctx, q.Device.MAC)
	}
	host, err := s.hostAddresses(q.Device.Name)
	if err != nil {
		return nil, err
	}
	return p.candidates(host)
}

func (s *server) release(w http.ResponseWriter, r *http.Request) {
	q, ok := ask(w, r)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.given.giveBack(q.ClaimUID + "/" + q.ShareID); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// ask reads a request. A newer agent may say more.
func ask(w http.ResponseWriter, r *http.Request) (question, bool) {
	var q question
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return q, err == nil
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
