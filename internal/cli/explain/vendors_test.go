// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"os"
	"strings"
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

// AMD's GPUs are placed by the root that they share with a NIC; that they have a NUMA node
// by a name of their own is no help to a claim that compares the standard one.
func TestAMDsGPUs(t *testing.T) {
	client := fake.NewClientset(clitest.Nodes(t, "../testdata/vendors")...)
	out, err := run(t, "", client, "template/amd-sriov", "-f", "../claim/testdata/vendors.yaml", "--node", "amd-0")
	if err != nil {
		t.Error(err)
	}
	clitest.Golden(t, "vendors-amd-0.txt", out)
	claims, err := os.ReadFile("../claim/testdata/vendors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	byNode := strings.ReplaceAll(string(claims), "matchAttribute: resource.kubernetes.io/pcieRoot", "matchAttribute: resource.kubernetes.io/numaNode")
	out, err = run(t, byNode, client, "template/amd-sriov", "-f", "-", "--node", "amd-0")
	if !errors.Is(err, cmdutil.ErrReported) {
		t.Errorf("by NUMA node: %v", err)
	}
	clitest.Golden(t, "vendors-amd-0-numa.txt", out)
}
