// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package imds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// LinkLocal is where most clouds have their server.
const LinkLocal = "169.254.169.254"

// Bounds of one request. The server is one hop away.
const (
	requestLimit = 5 * time.Second
	// atOnce is how many connections there are: clouds answer a machine that asks
	// too much with errors.
	atOnce = 8
	// MaxBody is how long an answer may be, in bytes.
	MaxBody = 1 << 20
	// maxReason is how much of a refusal's body goes into an error.
	maxReason = 80
)

// hostName is what else than an address an endpoint's host may be.
var hostName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?$`)

// Endpoint is a host or host:port as it stands in a URL; empty stands for the usual
// one.
func Endpoint(endpoint, usual string) (string, error) {
	if endpoint == "" {
		return usual, nil
	}
	if address := strings.TrimSuffix(strings.TrimPrefix(endpoint, "["), "]"); strings.Contains(address, ":") && net.ParseIP(address) != nil {
		return "[" + address + "]", nil
	}
	host, port := endpoint, "80"
	if h, p, err := net.SplitHostPort(endpoint); err == nil {
		host, port = h, p
	}
	_, err := strconv.ParseUint(port, 10, 16)
	if err != nil || net.ParseIP(host) == nil && !hostName.MatchString(host) {
		return "", fmt.Errorf("metadata endpoint %q: want a host or host:port, such as %s", endpoint, usual)
	}
	return endpoint, nil
}

// HTTPClient returns a client without proxy and redirect that does not wait long.
// It does not bound answers.
func HTTPClient() *http.Client {
	dialer := &net.Dialer{Timeout: requestLimit}
	return &http.Client{
		Timeout: requestLimit,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, MaxConnsPerHost: atOnce, MaxIdleConnsPerHost: atOnce, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("a metadata server does not redirect")
		},
	}
}

// Client asks one server.
type Client struct {
	base string
	http *http.Client
}

// New returns a client of the server at endpoint, a host or host:port; empty: the
// usual one.
func New(endpoint, usual string) (*Client, error) {
	endpoint, err := Endpoint(endpoint, usual)
	if err != nil {
		return nil, err
	}
	return &Client{base: "http://" + endpoint, http: HTTPClient()}, nil
}

// statusError is an answer that is none.
type statusError struct {
	status int
	reason string
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP status %d %q", e.status, e.reason) }

// IsStatus says whether an error of Get is an answer with this HTTP status.
func IsStatus(err error, status int) bool {
	var answered *statusError
	return errors.As(err, &answered) && answered.status == status
}

// IsMissing says whether an error of Get means that the server answers, and has
// no such entry.
func IsMissing(err error) bool { return IsStatus(err, http.StatusNotFound) }

// Header is one header of a request.
type Header struct{ Name, Value string }

// Get returns an entry without the space around it.
func (c *Client) Get(ctx context.Context, path string, h Header) (string, error) {
	return c.do(ctx, http.MethodGet, path, h)
}

// GetOptional is Get; an entry that the server does not have is empty.
func (c *Client) GetOptional(ctx context.Context, path string, h Header) (string, error) {
	text, err := c.Get(ctx, path, h)
	if IsMissing(err) {
		return "", nil
	}
	return text, err
}

// tokenPath and tokenSeconds: a token is asked for before each look and used for
// that look only, so it need not live long.
const (
	tokenPath    = "/latest/api/token"
	tokenSeconds = "60"
)

// maxToken is how long a token may be; AWS's has 56 bytes.
const maxToken = 4 << 10

// Token opens a session as version 2 of the services of AWS and Alibaba Cloud
// want it. The header to ask with is named name, that of the token's lifetime has
// -ttl-seconds behind that.
func (c *Client) Token(ctx context.Context, name string) (Header, error) {
	token, err := c.do(ctx, http.MethodPut, tokenPath, Header{name + "-ttl-seconds", tokenSeconds})
	switch {
	case err != nil:
		return Header{}, err
	case token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r < '!' || r > '~' }):
		return Header{}, fmt.Errorf("PUT %s: %.40q is no token", tokenPath, token)
	}
	return Header{name, token}, nil
}

func (c *Client) do(ctx context.Context, method, path string, h Header) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set(h.Name, h.Value)
	answer, err := c.http.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(http.MaxBytesReader(nil, answer.Body, MaxBody))
	if answer.StatusCode != http.StatusOK {
		err = &statusError{status: answer.StatusCode, reason: string(text[:min(len(text), maxReason)])}
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", method, path, err)
	}
	return strings.TrimSpace(string(text)), nil
}
