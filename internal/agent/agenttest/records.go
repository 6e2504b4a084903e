// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
)

// RecordOf is a record of a claim in the namespace default, held by one pod, whose UID
// is its name and "-uid".
func RecordOf(driverName, claim string, pod types.UID, devices ...string) driver.Record {
	r := driver.Record{
		Version: 1, Driver: driverName,
		Claim: driver.ClaimRef{UID: types.UID(claim + "-uid"), Namespace: "default", Name: claim},
		Pods:  []driver.PodRef{{UID: pod, Name: strings.TrimSuffix(string(pod), "-uid")}},
	}
	for _, d := range devices {
		r.Devices = append(r.Devices, driver.DeviceRecord{Device: d})
	}
	return r
}

// TwoNodes is a machine of two NUMA nodes with four CPUs each.
func TwoNodes(t testing.TB) *model.Machine {
	t.Helper()
	parts := model.Machine{NUMANodes: []model.NUMANode{{ID: 0, CPUs: cpuset.New(0, 1, 2, 3)}, {ID: 1, CPUs: cpuset.New(4, 5, 6, 7)}}}
	for id := range 8 {
		node := id / 4
		parts.CPUs = append(parts.CPUs, model.CPU{ID: id, Online: true, NUMANode: &node, Core: &model.CoreID{Package: node, Core: id % 4}, Siblings: cpuset.New(id)})
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
