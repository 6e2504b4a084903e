// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// cluster knows the tokens "prometheus", which may read metrics, and "other",
// which may not.
type cluster struct {
	*fake.Clientset
	down   error
	tokens int // how many token reviews were asked for
}

func newCluster() *cluster {
	c := &cluster{Clientset: fake.NewClientset()}
	c.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		c.tokens++
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status.Authenticated = review.Spec.Token == "prometheus" || review.Spec.Token == "other"
		review.Status.User = authenticationv1.UserInfo{Username: review.Spec.Token, Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
		return true, review, c.down
	})
	c.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		asked := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "prometheus" && asked.Path == "/metrics" && asked.Verb == "get" &&
			len(review.Spec.Groups) == 1 && len(review.Spec.Extra["k"]) == 1
		return true, review, c.down
	})
	return c
}

func figures() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "figures") })
}

// get is the status and the text of an answer through the gate.
func get(g *gate, authorization string) (int, string) {
	r := httptest.NewRequest("GET", "/metrics", nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	g.guard(figures()).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestGate(t *testing.T) {
	tests := []struct {
		name, authorization string
		down                error
		status              int
		text                string
	}{
		{"who may read", "Bearer prometheus", nil, 200, "figures"},
		{"the scheme in small letters", "bearer prometheus", nil, 200, "figures"},
		{"no token", "", nil, 401, "want a bearer token"},
		{"an empty token", "Bearer ", nil, 401, "want a bearer token"},
		{"a password", "Basic cHJvbWV0aGV1cw==", nil, 401, "want a bearer token"},
		{"a token of nobody", "Bearer forged", nil, 401, "may not GET /metrics"},
		{"who may not read", "Bearer other", nil, 403, "may not GET /metrics"},
		{"the API server is away", "Bearer prometheus", errors.New("connection refused"), 503, "does not say who asks"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster()
			c.down = tc.down
			status, text := get(newGate(c, time.Now), tc.authorization)
			if status != tc.status || !strings.Contains(text, tc.text) {
				t.Errorf("%d %q, want %d with %q", status, text, tc.status, tc.text)
			}
			if strings.Contains(text, "figures") != (tc.status == 200) {
				t.Error("figures went to the wrong reader")
			}
		})
	}
}

func TestAnswersAreRemembered(t *testing.T) {
	c, now := newCluster(), time.Unix(1000, 0)
	g := newGate(c, func() time.Time { return now })
	steps := []struct {
		after         time.Duration
		token         string
		status, asked int
	}{
		{0, "prometheus", 200, 1},
		{time.Minute, "prometheus", 200, 1},
		{2 * time.Minute, "prometheus", 200, 2}, // it may have lost the right
		{0, "other", 403, 3},
		{time.Second, "other", 403, 3},
		{time.Minute, "other", 403, 4}, // it may have got the right
	}
	for i, s := range steps {
		now = now.Add(s.after)
		if status, _ := get(g, "Bearer "+s.token); status != s.status || c.tokens != s.asked {
			t.Errorf("step %d: status %d after %d questions, want %d after %d", i, status, c.tokens, s.status, s.asked)
		}
	}
}

// TestStrangersAskLittle: whoever invents tokens must not use up what the agent
// may ask the API server, nor its memory, nor push out the reader.
func TestStrangersAskLittle(t *testing.T) {
	c, now := newCluster(), time.Unix(1000, 0)
	g := newGate(c, func() time.Time { return now })
	if status, _ := get(g, "Bearer prometheus"); status != 200 {
		t.Fatalf("status %d", status)
	}
	refused := 0
	for i := range 1000 {
		if status, _ := get(g, fmt.Sprintf("Bearer forged-%d", i)); status == http.StatusTooManyRequests {
			refused++
		}
	}
	if c.tokens > askingBurst {
		t.Errorf("%d questions at once, want at most %d", c.tokens, askingBurst)
	}
	if want := 1000 - askingBurst + 1; refused != want {
		t.Errorf("%d refused unasked, want %d", refused, want)
	}
	if status, _ := get(g, "Bearer prometheus"); status != 200 {
		t.Errorf("the reader is answered %d meanwhile", status)
	}
	for i := range 10 * remembered {
		now = now.Add(2 * time.Second)
		get(g, fmt.Sprintf("Bearer later-%d", i))
	}
	if len(g.known) > remembered {
		t.Errorf("%d answers remembered, want at most %d", len(g.known), remembered)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// fetch asks until somebody listens.
func fetch(t *testing.T, address, token string) (*http.Response, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "node-1"},
	}}
	var last error
	for range 500 {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+address+Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(r)
		if err != nil {
			last = err
			time.Sleep(20 * time.Millisecond)
			continue
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return response, string(text)
	}
	t.Fatal(last)
	return nil, ""
}

func TestServe(t *testing.T) {
	address := freeAddress(t)
	o := Options{Address: address, Name: "node-1", Client: newCluster()}
	if err := Serve(t.Context(), o, figures()); err != nil {
		t.Fatal(err)
	}
	response, text := fetch(t, address, "prometheus")
	if text != "figures" || response.TLS.PeerCertificates[0].VerifyHostname("node-1") != nil {
		t.Errorf("answer %q, certificate %v", text, response.TLS.PeerCertificates[0].DNSNames)
	}
	if response, _ := fetch(t, address, "forged"); response.StatusCode != 401 {
		t.Errorf("status %d for a forged token", response.StatusCode)
	}
}

// TestTakeOver: during an upgrade two agents of a node want the same port.
func TestTakeOver(t *testing.T) {
	address := freeAddress(t)
	old, stop := context.WithCancel(t.Context())
	o := Options{Address: address, Name: "node-1", Client: newCluster()}
	if err := Serve(old, o, figures()); err != nil {
		t.Fatal(err)
	}
	fetch(t, address, "prometheus")
	successor := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "successor") })
	if err := Serve(t.Context(), o, successor); err != nil {
		t.Fatal(err)
	}
	if _, text := fetch(t, address, "prometheus"); text != "figures" {
		t.Errorf("answer %q while the old agent runs", text)
	}
	stop()
	for range 100 {
		if _, text := fetch(t, address, "prometheus"); text == "successor" {
			return
		}
	}
	t.Error("the successor never answered")
}

func TestCertificateFromFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := certificates(dir, "", time.Now()); err == nil || !strings.Contains(err.Error(), "load certificate from "+dir) {
		t.Errorf("error %v, want one that names the directory", err)
	}
	var load func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	for _, name := range []string{"first", "renewed"} {
		own, err := selfSigned(name, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		write := func(file, kind string, data []byte) {
			text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data})
			if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("tls.crt", "CERTIFICATE", own.Certificate[0])
		write("tls.key", "PRIVATE KEY", key)
		if load == nil {
			if load, err = certificates(dir, "", time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		pair, err := load(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := pair.Leaf.Subject.CommonName; got != name {
			t.Errorf("certificate of %s, want %s", got, name)
		}
	}
}

func TestServeRefusesAddress(t *testing.T) {
	err := Serve(t.Context(), Options{Address: "9178", Client: newCluster()}, figures())
	if err == nil || !strings.Contains(err.Error(), `address "9178": want ADDRESS:PORT`) {
		t.Errorf("error %v, want one that names the address", err)
	}
}

func TestCheckAddress(t *testing.T) {
	for _, address := range []string{":9177", "127.0.0.1:9177", "localhost:1", "[::1]:65535", "[fe80::1%eth0]:80"} {
		if err := CheckAddress(address); err != nil {
			t.Errorf("%s is refused: %v", address, err)
		}
	}
	for _, address := range []string{"", "9177", ":", ":0", ":65536", ":http", "127.0.0.1", "::1:9177", "node-1:9177", "127.0.0.256:80", "a b:80", ":-1"} {
		err := CheckAddress(address)
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("%q: want ADDRESS:PORT", address)) {
			t.Errorf("%q: error %v", address, err)
		}
	}
}

// Whoever has no token is answered where an administrator wants it so.
func TestServePlain(t *testing.T) {
	address := freeAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	ServePlain(ctx, address, figures())
	get := func() (string, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		return string(text), err
	}
	answers := func(want string) bool {
		for range 500 {
			if text, _ := get(); text == want {
				return true
			}
			time.Sleep(20 * time.Millisecond)
		}
		return false
	}
	if !answers("figures") {
		t.Error("nobody answers")
	}
	stop()
	if !answers("") {
		t.Error("somebody still answers")
	}
}
