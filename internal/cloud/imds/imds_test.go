// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package imds

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	c, err := New(strings.TrimPrefix(s.URL, "http://"), LinkLocal)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEndpoint(t *testing.T) {
	for endpoint, want := range map[string]string{
		"": LinkLocal, "169.254.169.254": "169.254.169.254", "10.0.2.2:8080": "10.0.2.2:8080",
		"metadata.google.internal": "metadata.google.internal", "[fd20:ce::254]:80": "[fd20:ce::254]:80",
		"fd00:ec2::254": "[fd00:ec2::254]", "[fd00:ec2::254]": "[fd00:ec2::254]",
		"http://10.0.2.2": "", "10.0.2.2:80/x": "", "a b": "", "10.0.2.2:x": "", "[]": "", "[10.0.2.2]": "", "fd00:ec2::254/x": "",
	} {
		got, err := Endpoint(endpoint, LinkLocal)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Endpoint(%q) = %q, %v; want %q", endpoint, got, err, want)
		}
	}
}

func TestGet(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("Metadata") != "true" {
			http.Error(w, "header Metadata is missing", http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, " p4d.24xlarge\n")
	})
	got, err := c.Get(t.Context(), "/instance-type", Header{"Metadata", "true"})
	if err != nil || got != "p4d.24xlarge" {
		t.Errorf("Get = %q, %v", got, err)
	}
	_, err = c.Get(t.Context(), "/instance-type", Header{"Metadata", "false"})
	if !IsStatus(err, http.StatusBadRequest) || IsMissing(err) || !strings.Contains(err.Error(), "GET /instance-type: HTTP status 400 \"header Metadata is missing") {
		t.Errorf("without its header: %v", err)
	}
}

func TestGetFails(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"too much", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", MaxBody+1)) }, "too large"},
		{"a refusal that is too long to repeat", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("x", 1000), http.StatusForbidden)
		}, `HTTP status 403 "` + strings.Repeat("x", maxReason) + `"`},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://198.51.100.1/", http.StatusFound)
		}, "does not redirect"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := serve(t, test.handler).GetOptional(t.Context(), "/x", Header{"A", "b"})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("GetOptional = %v, want %q", err, test.want)
			}
		})
	}
	missing := serve(t, http.NotFound)
	if got, err := missing.GetOptional(t.Context(), "/x", Header{"A", "b"}); got != "" || err != nil {
		t.Errorf("an entry that is not there: %q, %v", got, err)
	}
	if _, err := missing.Get(t.Context(), "/x", Header{"A", "b"}); !IsMissing(err) {
		t.Errorf("Get of an entry that is not there: %v", err)
	}
}

func TestGetEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "/x", Header{"A", "b"}); err == nil {
		t.Error("a server that never answers gave an answer")
	}
}

func TestToken(t *testing.T) {
	for _, test := range []struct {
		name, token string
		ok          bool
	}{
		{"a token", "AQAEALd7aGVsbG8=", true},
		{"with a line's end", "AQAEALd7aGVsbG8=\n", true},
		{"empty", "", false},
		{"two lines", "a\nb", false},
		{"too long", strings.Repeat("x", maxToken+1), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPut || r.URL.Path != "/latest/api/token" || r.Header.Get("X-token-ttl-seconds") == "" {
					http.NotFound(w, r)
					return
				}
				fmt.Fprint(w, test.token)
			})
			got, err := c.Token(t.Context(), "X-token")
			if (err == nil) != test.ok || test.ok && got != (Header{"X-token", "AQAEALd7aGVsbG8="}) {
				t.Errorf("Token = %q, %v", got, err)
			}
		})
	}
	if _, err := serve(t, http.NotFound).Token(t.Context(), "X-token"); !IsMissing(err) {
		t.Errorf("of a server without tokens: %v", err)
	}
}
