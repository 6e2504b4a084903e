// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package providers is the list of clouds there are, and chooses from it by
// what the administrator says. A new provider gets its line here.
package providers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/gce"
	"plumbline.dev/plumbline/internal/cloud/webhook"
)

// What Options.Provider and Options.Profiles may say, in any case of letters.
const (
	// Auto tries them all: GCE, then the webhook where there is a URL.
	Auto    = "auto"
	GCE     = "gce"
	Webhook = "webhook"
	None    = "none"
	// Cloud as Options.Profiles leaves profiles to the provider, where it
	// resolves any.
	Cloud = "cloud"
)

// later are clouds that the driver before this one knew by name.
var later = []string{"aws", "azure", "oke", "alibaba", "cks"}

// Options say what the administrator chose.
type Options struct {
	// Provider is who is asked for attributes: Auto, GCE, Webhook or None.
	Provider string
	// Profiles is who resolves profiles: Cloud, Webhook or None.
	Profiles string
	// WebhookURL is https://HOST[:PORT], http://HOST[:PORT] or unix:///PATH.
	WebhookURL string
	// MetadataEndpoint is GCE's metadata server, host or host:port; empty: the
	// one every instance has.
	MetadataEndpoint string
}

// DefaultOptions find out where the node is.
func DefaultOptions() Options { return Options{Provider: Auto, Profiles: Cloud} }

// Chosen is what the options come to.
type Chosen struct {
	// Candidates are the clouds to try, in this order.
	Candidates []cloud.Provider
	// Profiler is nil where nobody resolves profiles.
	Profiler cloud.Profiler
	// Warnings are what the administrator should know.
	Warnings []string
}

// Choose makes the providers, and asks none of them.
func Choose(o Options) (Chosen, error) {
	var c Chosen
	provider, profiles := strings.ToLower(o.Provider), strings.ToLower(o.Profiles)
	google, err := gce.New(o.MetadataEndpoint)
	if err != nil {
		return c, fmt.Errorf("--metadata-endpoint: %w", err)
	}
	hook, err := o.webhook(provider, profiles)
	if err != nil {
		return c, err
	}
	switch {
	case provider == Auto:
		c.Candidates = []cloud.Provider{google}
		if hook != nil {
			c.Candidates = append(c.Candidates, hook)
		}
	case provider == GCE:
		c.Candidates = []cloud.Provider{google}
	case provider == Webhook:
		c.Candidates = []cloud.Provider{hook}
	case provider == None:
	case slices.Contains(later, provider):
		return c, fmt.Errorf("--cloud-provider=%s: this build has no provider of its own for that cloud: use %s, with --webhook-url, or %s", o.Provider, Webhook, None)
	default:
		return c, fmt.Errorf("--cloud-provider=%q: want %s, %s, %s or %s", o.Provider, Auto, GCE, Webhook, None)
	}
	switch profiles {
	case Webhook:
		c.Profiler = hook
	case Cloud:
		if provider == Webhook {
			c.Profiler = hook
		}
	case None:
	default:
		return c, fmt.Errorf("--profile-provider=%q: want %s, %s or %s", o.Profiles, Cloud, Webhook, None)
	}
	if hook != nil && hook.InTheClear() {
		c.Warnings = append(c.Warnings, fmt.Sprintf("--webhook-url=%s: whoever is on the way can decide how pods' NICs are set up: use https or a unix socket", o.WebhookURL))
	}
	return c, nil
}

// webhook is nil where none is meant.
func (o Options) webhook(provider, profiles string) (*webhook.Webhook, error) {
	switch {
	case o.WebhookURL != "":
		hook, err := webhook.New(o.WebhookURL)
		if err != nil {
			return nil, fmt.Errorf("--webhook-url: %w", err)
		}
		return hook, nil
	case provider == Webhook:
		return nil, errors.New("--cloud-provider=webhook: needs --webhook-url")
	case profiles == Webhook:
		return nil, errors.New("--profile-provider=webhook: needs --webhook-url")
	}
	return nil, nil
}
