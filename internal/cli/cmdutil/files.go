// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"io"

	"k8s.io/cli-runtime/pkg/resource"
)

// Files reads manifests as kubectl does: files, folders, addresses, and stdin for
// "-". Lists are read as what is in them, and a file that cannot be read does not
// hide the others. Whoever visits sees unstructured objects.
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
