// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package gce

import (
	"fmt"
	"net/http"

	"plumbline.dev/plumbline/internal/cloud/imds"
)

// newHTTPClient returns a client that talks to one metadata server and to
// nobody else.
func newHTTPClient(endpoint string) *http.Client {
	client := imds.HTTPClient()
	client.Transport = &toServer{endpoint: endpoint, base: client.Transport}
	return client
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
	answer.Body = http.MaxBytesReader(nil, answer.Body, imds.MaxBody)
	return answer, nil
}
