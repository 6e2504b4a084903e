// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"testing"
	"testing/fstest"

	"plumbline.dev/plumbline/internal/model"
)

// The device files of an rxe device are not in the CDI edits: they are gone before the
// container is created, which would fail to start.
func TestSoftwareRDMALendsNoDeviceFiles(t *testing.T) {
	rdma := model.RDMADevice{Name: "mlx5_0", CharDevices: []string{"/dev/infiniband/uverbs0"}}
	if e, err := edits(&rdma, nil, true); err != nil || len(e.DeviceNodes) != 2 {
		t.Errorf("hardware lends %v (error %v), want uverbs0 and rdma_cm", e.DeviceNodes, err)
	}
	rdma.Software = true
	if e, err := edits(&rdma, nil, true); err != nil || len(e.DeviceNodes) != 0 {
		t.Errorf("software lends %v (error %v), want nothing", e.DeviceNodes, err)
	}
}

// The agent sees the host's /sys, not its /dev.
func TestConnectionManagerIsAskedOfSysfs(t *testing.T) {
	if hasRDMACM(fstest.MapFS{}) {
		t.Error("found a connection manager in an empty tree")
	}
	if !hasRDMACM(fstest.MapFS{"class/misc/rdma_cm/dev": {Data: []byte("10:122\n")}}) {
		t.Error("missed the connection manager")
	}
}
