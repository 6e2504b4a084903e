// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package agenttest is test-only: stand-ins that the tests of the agent's
// packages share.
package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
)

// FakeDriver gives every claim what it asks for unless another has it, counts
// its plans, and writes down what it is told to attach.
type FakeDriver struct {
	// DriverName is what Name answers.
	DriverName string

	// Mu guards the rest; who holds it makes the driver slow.
	Mu      sync.Mutex
	Plans   int
	Refuse  error
	Actions []string
}

// Name is the driver's.
func (d *FakeDriver) Name() string { return d.DriverName }

// Plan refuses what another claim has.
func (d *FakeDriver) Plan(c driver.Claim, _ *model.Machine, held []driver.Record) (driver.Record, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Plans++
	if d.Refuse != nil {
		return driver.Record{}, d.Refuse
	}
	r := driver.Record{Version: driver.RecordVersion, Driver: d.DriverName, Claim: c.ClaimRef, Pods: c.Pods}
	for _, a := range c.Devices {
		for _, other := range held {
			if slices.ContainsFunc(other.Devices, func(x driver.DeviceRecord) bool { return x.Device == a.Device }) {
				return driver.Record{}, driver.HeldError{Err: errors.New(a.Device + " is held by " + other.Claim.String())}
			}
		}
		r.Devices = append(r.Devices, driver.DeviceRecord{Request: a.Request, Pool: a.Pool, Device: a.Device, AdminAccess: a.AdminAccess, Plan: json.RawMessage("{}")})
	}
	return r, nil
}

// Moves is true of every device but those of admin access.
func (d *FakeDriver) Moves(r driver.Record) bool {
	return slices.ContainsFunc(r.Devices, func(x driver.DeviceRecord) bool { return !x.AdminAccess })
}

// Attach writes down.
func (d *FakeDriver) Attach(_ context.Context, r driver.Record, netns string) ([]driver.DeviceStatus, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Actions = append(d.Actions, "attach "+r.Claim.Name+" to "+netns)
	if d.Refuse != nil {
		return nil, d.Refuse
	}
	return []driver.DeviceStatus{{Device: r.Devices[0].Device, InterfaceName: "net1", IPs: []string{"192.0.2.7/24"}}}, nil
}

// Detach writes down.
func (d *FakeDriver) Detach(_ context.Context, r driver.Record, netns string) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Actions = append(d.Actions, "detach "+r.Claim.Name+" from "+netns)
	return d.Refuse
}

// ClaimFor is an allocated claim of one device, held by the pod "<name>-pod".
func ClaimFor(name, device string) driver.Claim {
	return driver.Claim{
		ClaimRef: driver.ClaimRef{UID: types.UID(name + "-uid"), Namespace: "default", Name: name},
		Pods:     []driver.PodRef{{UID: types.UID(name + "-pod"), Name: name}},
		Devices:  []driver.Allocation{{Request: "r", Pool: "node", Device: device}},
	}
}

// Eventually waits until a condition is true.
func Eventually(t *testing.T, what string, true func() bool) {
	t.Helper()
	for range 500 {
		if true() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("waited in vain: %s", what)
}
