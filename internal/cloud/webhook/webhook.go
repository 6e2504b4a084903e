// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/cloud"
)

// Paths of the protocol.
const (
	pathHealth     = "/health"
	pathAttributes = "/GetDeviceAttributes"
	pathConfig     = "/GetDeviceConfig"
	pathProfile    = "/GetProfileConfig"
	pathRelease    = "/ReleaseProfileConfig"
)

// atOnce is how many devices are asked about at a time: a node may have
// hundreds, and one slow answer must not wait for another.
const atOnce = 8

// Webhook is both a cloud.Provider and a cloud.Profiler, as far as the program
// at the other end says it is.
type Webhook struct {
	url    string // as the administrator wrote it, for errors
	base   string // what paths are appended to
	client *http.Client
}

// New returns a client of the webhook at a URL: https://HOST[:PORT][/PATH],
// http:// for the same in the clear, or unix:///PATH.
func New(url string) (*Webhook, error) {
	base, client, err := newHTTPClient(url)
	if err != nil {
		return nil, err
	}
	return &Webhook{url: url, base: base, client: client}, nil
}

// Name is what people call it, with the URL to tell one from another.
func (w *Webhook) Name() string { return "webhook " + w.url }

// Configures is true: a webhook may answer /GetDeviceConfig.
func (*Webhook) Configures(cloud.Device) bool { return true }

// Probe returns nil where the webhook answers and offers attributes.
func (w *Webhook) Probe(ctx context.Context) error {
	c, err := w.health(ctx)
	if err != nil {
		return err
	}
	if !c.CloudProvider {
		return fmt.Errorf(`%s says "cloudProvider": false: it is not asked about devices: mend it, or start the agent with another --cloud-provider`, w.Name())
	}
	return nil
}

// Lookup asks about every device, several at a time.
func (w *Webhook) Lookup(ctx context.Context, devices []cloud.Device) ([]cloud.Answer, error) {
	if err := w.Probe(ctx); err != nil {
		return nil, err
	}
	answers := make([]cloud.Answer, len(devices))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, d := range devices {
		group.Go(func() error {
			answers[i] = w.lookAt(ctx, d)
			return nil
		})
	}
	return answers, group.Wait()
}

func (w *Webhook) lookAt(ctx context.Context, d cloud.Device) cloud.Answer {
	text, err := w.post(ctx, pathAttributes, deviceOf(d))
	var a cloud.Answer
	if err == nil {
		a.Attributes, a.Omitted, err = decodeAttributes(text)
	}
	if err != nil && !errors.Is(err, errNotThere) {
		return cloud.Answer{Err: fmt.Errorf("%s: %w", pathAttributes, err)}
	}
	a.Config, err = w.config(ctx, pathConfig, deviceOf(d))
	if err != nil && !errors.Is(err, errNotThere) {
		return cloud.Answer{Err: fmt.Errorf("%s: %w", pathConfig, err)}
	}
	return a
}

// config posts a request that is answered by a NetworkConfig, nil for an empty
// one.
func (w *Webhook) config(ctx context.Context, path string, request any) ([]byte, error) {
	text, err := w.post(ctx, path, request)
	if err != nil || isEmptyJSON(text) {
		return nil, err
	}
	if _, err := v1alpha1.DecodeNetworkConfig(text); err != nil {
		return nil, fmt.Errorf("the answer is no NetworkConfig: %w", err)
	}
	return text, nil
}

// Profile asks the webhook to resolve the profile that r.Config names.
func (w *Webhook) Profile(ctx context.Context, r cloud.ProfileRequest) ([]byte, error) {
	if err := w.resolves(ctx); err != nil {
		return nil, err
	}
	claim := r.Claim.DeepCopy()
	claim.ManagedFields = nil // half of its bytes, and nobody's business
	return w.config(ctx, pathProfile, profileRequest{Device: deviceOf(r.Device), Claim: claim, ShareID: r.ShareID, Config: r.Config})
}

// Release tells the webhook that the claim is over. A webhook that has no such
// path has nothing to give back.
func (w *Webhook) Release(ctx context.Context, r cloud.ReleaseRequest) error {
	_, err := w.post(ctx, pathRelease, releaseRequest{Device: deviceOf(r.Device), ClaimUID: r.ClaimUID, ShareID: r.ShareID, Config: r.Config})
	if errors.Is(err, errNotThere) {
		return nil
	}
	return err
}

func (w *Webhook) resolves(ctx context.Context) error {
	c, err := w.health(ctx)
	if err == nil && !c.ProfileProvider {
		err = fmt.Errorf(`%s says "profileProvider": false: it resolves no profile`, w.Name())
	}
	return err
}
