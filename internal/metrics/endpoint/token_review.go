// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// allowedFor and refusedFor are how long an answer of the API server is
	// believed. A scrape every 15 s so costs it two questions in two minutes.
	allowedFor = 2 * time.Minute
	refusedFor = 10 * time.Second
	// remembered is how many tokens' answers are kept.
	remembered = 32
	// asking bounds the questions for tokens nobody has seen: a stranger must
	// not use up what the agent may ask the API server.
	asking      = rate.Limit(1)
	askingBurst = 10
	askAtMost   = 5 * time.Second
)

// errBusy refuses without having asked.
var errBusy = errors.New("too many unknown tokens")

// gate lets requests pass whose bearer token may GET their path.
type gate struct {
	client kubernetes.Interface
	now    func() time.Time
	limit  *rate.Limiter

	mu    sync.Mutex
	known map[question]verdict
}

// question is a token, which is not kept itself, and a path.
type question struct {
	token [sha256.Size]byte
	path  string
}

type verdict struct {
	status int // of HTTP; 200 lets pass
	until  time.Time
}

func newGate(client kubernetes.Interface, now func() time.Time) *gate {
	return &gate{client: client, now: now, limit: rate.NewLimiter(asking, askingBurst), known: map[question]verdict{}}
}

// guard answers for next who may not ask it.
func (g *gate) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "want a bearer token of the cluster", http.StatusUnauthorized)
			return
		}
		status, err := g.status(r.Context(), token, r.URL.Path)
		switch {
		case errors.Is(err, errBusy):
			http.Error(w, err.Error(), http.StatusTooManyRequests)
		case err != nil:
			http.Error(w, "the API server does not say who asks", http.StatusServiceUnavailable)
		case status != http.StatusOK:
			http.Error(w, fmt.Sprintf("the token's account may not GET %s", r.URL.Path), status)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// status is that of the answer to a token: 200, 401 or 403.
func (g *gate) status(ctx context.Context, token, path string) (int, error) {
	key := question{sha256.Sum256([]byte(token)), path}
	g.mu.Lock()
	known, ok := g.known[key]
	g.mu.Unlock()
	if ok && g.now().Before(known.until) {
		return known.status, nil
	}
	if !g.limit.AllowN(g.now(), 1) {
		return 0, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, askAtMost)
	defer cancel()
	status, err := g.ask(ctx, token, path)
	if err != nil {
		return 0, err
	}
	lasts := refusedFor
	if status == http.StatusOK {
		lasts = allowedFor
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= remembered {
		clear(g.known)
	}
	g.known[key] = verdict{status, g.now().Add(lasts)}
	return status, nil
}

// ask has the API server say whose the token is, and what that account may.
func (g *gate) ask(ctx context.Context, token, path string) (int, error) {
	review, err := g.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review token: %w", err)
	}
	if !review.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	who := review.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(who.Extra))
	for key, values := range who.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	access, err := g.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who.Username, Groups: who.Groups, UID: who.UID, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review access of %s to %s: %w", who.Username, path, err)
	}
	if !access.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
