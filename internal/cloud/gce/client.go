// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package gce

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"time"
)

// hostName is what else than an address an endpoint's host may be.
var hostName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?$`)

// Bounds of one request. The server is one hop away.
const (
	requestLimit = 5 * time.Second
	maxBody      = 1 << 20
)

// newHTTPClient returns a client that talks to one metadata server and to
// nobody else: no proxy, no redirect.
func newHTTPClient(endpoint string) *http.Client {
	dialer := &net.Dialer{Timeout: requestLimit}
	return &http.Client{
		Timeout: requestLimit,
		Transport: &toServer{endpoint: endpoint, base: &http.Transport{
			DialContext: dialer.DialContext, MaxIdleConns: 1, IdleConnTimeout: time.Minute,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("a metadata server does not redirect")
		},
	}
}

// toServer sends every request to one server. The library would choose the host
// by an environment variable; here it is a value.
type toServer struct {
	endpoint string
	base     http.RoundTripper
}

// RoundTrip also bounds the answer, and refuses one by somebody else: many
// clouds have something at this address.
func (t *toServer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host, r.Host = t.endpoint, t.endpoint
	answer, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if flavor := answer.Header.Get("Metadata-Flavor"); flavor != "Google" {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("%s is not GCE's metadata server: its answer has the header Metadata-Flavor %.40q, want \"Google\"", t.endpoint, flavor)
	}
	answer.Body = http.MaxBytesReader(nil, answer.Body, maxBody)
	return answer, nil
}
