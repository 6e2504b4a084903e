// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/topoview/published"
)

// readClaims reads the ResourceClaims of files; other objects are passed over.
func readClaims(files []string, stdin io.Reader) ([]resourceapi.ResourceClaim, error) {
	var claims []resourceapi.ResourceClaim
	err := cmdutil.Files(files, false, stdin).Do().Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		u, ok := info.Object.(*unstructured.Unstructured)
		if !ok || u.GetKind() != "ResourceClaim" {
			return nil
		}
		if want := resourceapi.SchemeGroupVersion.String(); u.GetAPIVersion() != want {
			return fmt.Errorf("read %s: ResourceClaim %s is of %s: want %s", info.Source, u.GetName(), u.GetAPIVersion(), want)
		}
		var claim resourceapi.ResourceClaim
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &claim); err != nil {
			return fmt.Errorf("read %s: ResourceClaim %s: %w", info.Source, u.GetName(), err)
		}
		claims = append(claims, claim)
		return nil
	})
	return claims, err
}

// holdersFrom takes the claims of files as the holders of the machine's devices,
// whatever pool they name: a machine file is of no node.
func holdersFrom(v *published.View, files []string, stdin io.Reader) error {
	if len(files) == 0 {
		return nil
	}
	claims, err := readClaims(files, stdin)
	if err != nil {
		return cmdutil.UsageError{Err: err}
	}
	v.Options.Holders, v.Options.HoldersKnown = published.HoldersOf(claims), true
	return nil
}
