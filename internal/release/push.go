// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"plumbline.dev/plumbline/internal/ociimage"
)

// mediaTypeSPDX is a bill of materials (IANA's registration of SPDX).
const mediaTypeSPDX = "application/spdx+json"

// Push uploads the image under a name such as registry.example.com/plumbline:v1, and
// attaches its bills of materials. It signs in as docker does: by the person's
// configuration file and credential helpers.
func (i Image) Push(ctx context.Context, reference string) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return fmt.Errorf("push to %q: %w; want HOST/NAME:TAG", reference, err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if err := remote.WriteIndex(tag, i.Index, options...); err != nil {
		return fmt.Errorf("push %s: %w", tag, err)
	}
	for architecture, image := range i.ByArchitecture {
		attached, err := ociimage.Attachment(i.BOMs[architecture], mediaTypeSPDX, image)
		if err != nil {
			return err
		}
		digest, err := attached.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(tag.Digest(digest.String()), attached, options...); err != nil {
			return fmt.Errorf("attach the bill of materials for %s to %s: %w", architecture, tag, err)
		}
	}
	return nil
}
