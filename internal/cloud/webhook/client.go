// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// Bounds of one request.
const (
	requestLimit = 10 * time.Second
	maxBody      = 1 << 20
	// maxReason is how much of a refusal's body goes into an error.
	maxReason = 256
)

// errNotThere: the webhook has no such path, or knows no such device.
var errNotThere = errors.New("not there")

// newHTTPClient reads a webhook's URL. No proxy, no redirect: what is sent
// names pods.
func newHTTPClient(text string) (base string, client *http.Client, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", nil, fmt.Errorf("webhook URL %q: %w", text, err)
	}
	dialer := &net.Dialer{Timeout: requestLimit}
	transport := &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: requestLimit, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: atOnce, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
	}
	switch {
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", nil, fmt.Errorf("webhook URL %q: want no user, query or fragment", u.Redacted())
	case u.Scheme == "unix" && u.Host == "" && path.IsAbs(u.Path):
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", u.Path)
		}
		base = "http://localhost"
	case (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "":
		base = strings.TrimSuffix(text, "/")
	default:
		return "", nil, fmt.Errorf("webhook URL %q: want https://HOST[:PORT], http://HOST[:PORT] or unix:///PATH", text)
	}
	return base, &http.Client{
		Timeout: requestLimit, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a webhook must not redirect") },
	}, nil
}

// InTheClear says whether others on the way to the webhook can read and change
// what is said.
func (w *Webhook) InTheClear() bool {
	u, err := url.Parse(w.url)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

func (w *Webhook) health(ctx context.Context) (capabilities, error) {
	text, err := w.do(ctx, http.MethodGet, pathHealth, nil)
	if err == nil {
		var c capabilities
		if c, err = decodeCapabilities(text); err == nil {
			return c, nil
		}
	}
	return capabilities{}, fmt.Errorf("%s: %s: %w", w.Name(), pathHealth, err)
}

func (w *Webhook) post(ctx context.Context, path string, request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	return w.do(ctx, http.MethodPost, path, body)
}

func (w *Webhook) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(http.MaxBytesReader(nil, answer.Body, maxBody))
	switch {
	case answer.StatusCode == http.StatusNotFound || answer.StatusCode == http.StatusNotImplemented:
		return nil, fmt.Errorf("HTTP status %d %s: %w", answer.StatusCode, reason(text), errNotThere)
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("HTTP status %d %s", answer.StatusCode, reason(text))
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return text, nil
}

// reason quotes the beginning of a refusal's body.
func reason(text []byte) string {
	text = bytes.TrimSpace(text)
	return fmt.Sprintf("%q", text[:min(len(text), maxReason)])
}
