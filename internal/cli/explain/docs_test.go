// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"testing"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

const page = "explain.md"

// What the documentation says the command prints, it prints.
func TestDocumentedOutput(t *testing.T) {
	for name, args := range map[string][]string{
		"held":     {"-f", "-", "--machine", "a3-ultragpu-8g"},
		"misspelt": {"-f", "-", "--machine", "a3-ultragpu-8g"},
		"azure":    {"-f", "-", "--machine", "a3-ultragpu-8g=3", "--machine", "azure-nd96isr-h100-v5"},
	} {
		out, err := run(t, docstest.Get(t, page, "manifest", name).Text, nil, args...)
		if !errors.Is(err, cmdutil.ErrReported) {
			t.Errorf("%s: %v: want that it does not fit", name, err)
		}
		clitest.Documented(t, page, "output", name, out)
	}
}
