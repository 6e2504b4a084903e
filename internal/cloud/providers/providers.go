// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package providers is the list of clouds there are, and chooses from it by
// what the administrator says. A new provider gets its line here.
package providers

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/cloud/alibaba"
	"plumbline.dev/plumbline/internal/cloud/aws"
	"plumbline.dev/plumbline/internal/cloud/azure"
	"plumbline.dev/plumbline/internal/cloud/gce"
	"plumbline.dev/plumbline/internal/cloud/oke"
	"plumbline.dev/plumbline/internal/cloud/webhook"
)

// What Options.Provider and Options.Profiles may say, in any case of letters.
const (
	// Auto is the cloud that the machine's firmware names. Where it names none, it
	// is the webhook, if there is a URL and the webhook says that it is one.
	Auto    = "auto"
	GCE     = "gce"
	AWS     = "aws"
	Azure   = "azure"
	OKE     = "oke"
	Alibaba = "alibaba"
	Webhook = "webhook"
	None    = "none"
	// Cloud as Options.Profiles leaves profiles to the provider, where it
	// resolves any.
	Cloud = "cloud"
)

// makers make the provider of a cloud that asks the metadata server at endpoint,
// or, where that is empty, at the cloud's usual place.
var makers = map[string]func(endpoint string) (cloud.Provider, error){
	GCE:     func(endpoint string) (cloud.Provider, error) { return gce.New(endpoint) },
	AWS:     func(endpoint string) (cloud.Provider, error) { return aws.New(endpoint) },
	Azure:   func(endpoint string) (cloud.Provider, error) { return azure.New(endpoint) },
	OKE:     func(endpoint string) (cloud.Provider, error) { return oke.New(endpoint) },
	Alibaba: func(endpoint string) (cloud.Provider, error) { return alibaba.New(endpoint) },
}

// names are what Options.Provider may say, for errors.
const names = "auto, gce, aws, azure, oke, alibaba, webhook or none"

// coreWeave is a cloud that the driver before this one knew by name, and that has
// no metadata server.
const coreWeave = "cks"

// Options say what the administrator chose.
type Options struct {
	// Provider is who is asked for attributes: Auto, the name of a cloud, Webhook
	// or None.
	Provider string
	// Profiles is who resolves profiles: Cloud, Webhook or None.
	Profiles string
	// WebhookURL is https://HOST[:PORT], http://HOST[:PORT] or unix:///PATH.
	WebhookURL string
	// MetadataEndpoint is the cloud's metadata server, host or host:port; empty:
	// the one every instance has.
	MetadataEndpoint string
	// Sys is /sys, where Auto reads what the firmware says; nil: unknown.
	Sys fs.FS
}

// DefaultOptions find out where the node is.
func DefaultOptions() Options { return Options{Provider: Auto, Profiles: Cloud} }

// Chosen is what the options come to.
type Chosen struct {
	// Candidates are the clouds to try, in this order.
	Candidates []cloud.Provider
	// Probe has a sole candidate probed as well: nobody said that it is the
	// provider.
	Probe bool
	// Profiler is nil where nobody resolves profiles.
	Profiler cloud.Profiler
	// Warnings are what the administrator should know.
	Warnings []string
}

// Choose makes the providers, and asks none of them.
func Choose(o Options) (Chosen, error) {
	var c Chosen
	provider, profiles := strings.ToLower(o.Provider), strings.ToLower(o.Profiles)
	hook, err := o.webhook(provider, profiles)
	if err != nil {
		return c, err
	}
	if c.Candidates, c.Probe, err = o.candidates(provider, hook); err != nil {
		return c, err
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
	if hook != nil && c.Profiler == nil && !slices.Contains(c.Candidates, cloud.Provider(hook)) {
		c.Warnings = append(c.Warnings, fmt.Sprintf("--webhook-url=%s: the webhook is asked for nothing, as %s is the provider: it is asked about devices with --cloud-provider=%s, and about profiles with --profile-provider=%s", o.WebhookURL, c.provider(), Webhook, Webhook))
	}
	if hook != nil && hook.InTheClear() {
		c.Warnings = append(c.Warnings, fmt.Sprintf("--webhook-url=%s: whoever is on the way can decide how pods' NICs are set up: use https or a unix socket", o.WebhookURL))
	}
	return c, nil
}

// provider is the sole candidate in words.
func (c Chosen) provider() string {
	if len(c.Candidates) == 0 {
		return "nobody"
	}
	return c.Candidates[0].Name()
}

// candidates are whom to ask, in this order, and whether one alone is probed. A
// cloud that signed the machine has no other beside it: which of two answers first
// must not decide about pods' parameters.
func (o Options) candidates(provider string, hook *webhook.Webhook) (all []cloud.Provider, probe bool, err error) {
	asked, sure := provider, true
	switch {
	case provider == Auto:
		asked, sure = o.recognised()
	case provider == coreWeave:
		return nil, false, fmt.Errorf("--cloud-provider=%s: this build has no provider of its own for that cloud: use %s, with --webhook-url, or %s", o.Provider, Webhook, None)
	case provider != Webhook && provider != None && makers[provider] == nil:
		return nil, false, fmt.Errorf("--cloud-provider=%q: want %s", o.Provider, names)
	}
	if makers[asked] != nil {
		p, err := makers[asked](o.MetadataEndpoint)
		if err != nil {
			return nil, false, fmt.Errorf("--metadata-endpoint: %w", err)
		}
		all = append(all, p)
	}
	if hook != nil && (!sure || provider == Webhook) {
		all = append(all, hook)
		probe = !sure
	}
	return all, probe, nil
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
