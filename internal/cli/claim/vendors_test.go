// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"bytes"
	"context"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/simulate"
)

// Nodes of the drivers of others are filled as they are, and what is left is
// counted as a topology's room is.
func TestSimulateOnOtherDrivers(t *testing.T) {
	o := options{files: []string{"testdata/vendors.yaml"}, output: "text"}
	in, _, err := o.read(context.Background(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	simulation := simulate.Options{Classes: in.deviceClasses(), Limit: 100}
	var told bytes.Buffer
	client := fake.NewClientset(clitest.Nodes(t, "../testdata/vendors")...)
	groups, err := simulate.FromCluster(context.Background(), client, simulate.NodeFilter{}, &simulation, &told)
	if err != nil {
		t.Fatal(err)
	}
	reports, nowhere, err := fillAll(context.Background(), in.subjects(simulation.Classes), groups, simulation)
	if err != nil || nowhere {
		t.Fatal(err, nowhere)
	}
	var out bytes.Buffer
	if err := simulate.Text(&out, reports); err != nil {
		t.Fatal(err)
	}
	requireGolden(t, "simulate-vendors.txt", told.String()+out.String())
}
