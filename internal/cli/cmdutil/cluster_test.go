// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// TestFindTheCluster: without a kubeconfig the library would dial localhost, and
// a refused connection does not say what is missing.
func TestFindTheCluster(t *testing.T) {
	dir := t.TempDir()
	named := filepath.Join(dir, "named")
	if err := os.WriteFile(named, []byte(`{"clusters": [{"name": "c", "cluster": {"server": "http://localhost:8080"}}],
		"contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ kubeconfig, want string }{
		{named, ""}, // who writes the library's default address means it
		{filepath.Join(dir, "absent"), "set KUBECONFIG, or give --kubeconfig"},
	} {
		t.Setenv("KUBECONFIG", test.kubeconfig)
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
		_, err := cmdutil.NewClusterFlags().Client()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("KUBECONFIG=%s: %v, want an error with %q", filepath.Base(test.kubeconfig), err, test.want)
		}
	}
}
