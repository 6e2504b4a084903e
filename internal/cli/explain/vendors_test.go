// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// GPUs of a driver that nobody knows are placed by the standard attributes; where one is
// missing, it is named.
func TestStandardAttributes(t *testing.T) {
	for node, fits := range map[string]bool{"standard-0": true, "rootless-0": false} {
		t.Run(node, func(t *testing.T) {
			client := fake.NewClientset(clitest.Nodes(t, "../testdata/vendors")...)
			out, err := run(t, "", client, "template/standard", "-f", "../claim/testdata/vendors.yaml", "--node", node)
			if err != nil && !errors.Is(err, cmdutil.ErrReported) || (err == nil) != fits {
				t.Errorf("%v, want fits: %v", err, fits)
			}
			clitest.Golden(t, "vendors-"+node+".txt", out)
		})
	}
}
