// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

// Files reads manifests as kubectl does: files, folders, addresses, and stdin for
// "-". Lists are read as what is in them, and a file that cannot be read does not
// hide the others. The objects are unstructured, as Visit wants them.
func Files(names []string, recursive bool, stdin io.Reader) *resource.Builder {
	b := resource.NewLocalBuilder().Unstructured().ContinueOnError().Flatten()
	var files []string
	for _, name := range names {
		if name == "-" {
			b = b.Stream(stdin, "-")
		} else {
			files = append(files, name)
		}
	}
	if len(files) > 0 {
		b = b.FilenameParam(false, &resource.FilenameOptions{Filenames: files, Recursive: recursive})
	}
	return b
}

// Visit calls add for each object that a builder reads; what it returns is an error of
// the object and its source.
func Visit(b *resource.Builder, add func(u *unstructured.Unstructured, source string) error) error {
	return b.Do().Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		u, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("read %s: a %T is no single object", info.Source, info.Object)
		}
		if err := add(u, info.Source); err != nil {
			return fmt.Errorf("read %s: %s %q: %w", info.Source, u.GetKind(), u.GetName(), err)
		}
		return nil
	})
}
