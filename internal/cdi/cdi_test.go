// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/golden"
)

const uid = types.UID("6a0c2f2e-53b5-4f4f-a2a4-0d7d3f7c9b11")

func record(driverName string, devices ...driver.DeviceRecord) driver.Record {
	return driver.Record{
		Version: 1, Driver: driverName, Devices: devices,
		Claim: driver.ClaimRef{UID: uid, Namespace: "default", Name: "aligned"},
	}
}

func examples() map[string]driver.Record {
	return map[string]driver.Record{
		"net": record("dra.net", driver.DeviceRecord{Request: "nic", Device: "pci-0000-91-00-0", Edits: driver.Edits{
			DeviceNodes: []driver.DeviceNode{{Path: "/dev/infiniband/uverbs0", Permissions: "rw"}},
			Mounts:      []driver.Mount{{Source: "/var/lib/plumbline/nic.json", Destination: "/var/run/nic.json"}},
		}}),
		"net-plain": record("dra.net", driver.DeviceRecord{Request: "nic", Device: "pci-0000-05-00-0"}),
		"cpu": record("dra.cpu", driver.DeviceRecord{Request: "cpus", Device: "cpudevnuma000", Edits: driver.Edits{
			Env: []string{"DRA_CPUSET_" + string(uid) + "=2-3,58-59"},
		}}),
		"cpu-two-requests": record("dra.cpu",
			driver.DeviceRecord{Request: "main", Device: "cpudevnuma000"},
			driver.DeviceRecord{Request: "helper", Device: "cpudevnuma000"}),
		"gpu": record("gpu.nvidia.com",
			driver.DeviceRecord{Request: "gpus", Device: "gpu-0", Edits: driver.Edits{
				Env:         []string{"NVIDIA_VISIBLE_DEVICES=void"},
				DeviceNodes: []driver.DeviceNode{{Path: "/dev/dri/card1", Permissions: "rw"}},
			}},
			driver.DeviceRecord{Request: "gpus", Device: "gpu-1", Edits: driver.Edits{
				Env:         []string{"NVIDIA_VISIBLE_DEVICES=void"},
				DeviceNodes: []driver.DeviceNode{{Path: "/dev/dri/card2", Permissions: "rw"}},
			}}),
	}
}

func TestGoldenSpecs(t *testing.T) {
	for name, r := range examples() {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			dir, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := dir.Write(r); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(path, fileName(r.Driver, uid)))
			if err != nil {
				t.Fatal(err)
			}
			golden.Assert(t, filepath.Join("testdata", name+".json"), string(got)+"\n")
			resolves(t, path, r)
		})
	}
}

// resolves reads the directory as a container runtime does.
func resolves(t *testing.T, path string, r driver.Record) {
	t.Helper()
	cache, err := cdilib.NewCache(cdilib.WithSpecDirs(path))
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Devices {
		if cache.GetDevice(ID(r, i)) == nil {
			t.Errorf("a runtime does not find %s; it has %v", ID(r, i), cache.ListDevices())
		}
	}
}

func TestSharesOfOneDeviceHaveTheirOwnNames(t *testing.T) {
	r := record("dra.net", driver.DeviceRecord{Device: "ib0", ShareID: "a"}, driver.DeviceRecord{Device: "ib0", ShareID: "b"})
	if ID(r, 0) == ID(r, 1) {
		t.Errorf("both shares are %s", ID(r, 0))
	}
}

func TestClaimsAndRemove(t *testing.T) {
	path := t.TempDir()
	dir, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []driver.Record{examples()["cpu"], examples()["net"]} {
		if err := dir.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(path, "other.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to remove
		if err := dir.Remove("dra.cpu", uid); err != nil {
			t.Fatal(err)
		}
	}
	cpu, err := dir.Claims("dra.cpu")
	if err != nil || len(cpu) > 0 {
		t.Errorf("dra.cpu: got %v, %v; want none", cpu, err)
	}
	if net, err := dir.Claims("dra.net"); err != nil || !slices.Equal(net, []types.UID{uid}) {
		t.Errorf("dra.net: got %v, %v; want %s", net, err, uid)
	}
}
