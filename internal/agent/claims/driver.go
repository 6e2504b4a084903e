// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/guard"
	"plumbline.dev/plumbline/internal/model"
)

// Driver is one DRA driver as the agent sees it: what it can plan, and which of
// the other halves it has. Those it lacks are nil.
type Driver struct {
	driver.Planner
	// Reader is of drivers that decide by what the kernel says now.
	Reader driver.HostReader
	// Stager is of drivers with work that is done while Prepare is answered.
	Stager driver.Stager
	// Attacher is of drivers that put things into a network namespace.
	Attacher driver.Attacher
	// Renewer is of drivers that are given something for a time.
	Renewer driver.Renewer
	// Pinner is of drivers that say where containers run.
	Pinner driver.Pinner
	// MemoryLocker is of drivers whose devices reach into a process's memory.
	MemoryLocker driver.MemoryLocker
	// Describer is of drivers that tell containers what they decided.
	Describer driver.Describer
	// ContainerEditor is of drivers that say late what a container gets. It is asked
	// for drivers that need the runtime alone.
	ContainerEditor driver.ContainerEditor
	// HeldNICs are the NICs of a record as they were before they left the
	// host; nil for drivers without NICs.
	HeldNICs func(driver.Record) ([]model.NIC, error)
	// HeldShares are what a record has of NICs that are shared, which stay on the
	// host; nil for drivers without NICs.
	HeldShares func(driver.Record) ([]model.HeldShare, error)
	// InPod are the NICs of a record as they are known in its pod; nil for
	// drivers without NICs.
	InPod func(driver.Record) ([]guard.NIC, error)
	// RDMAInPod is the RDMA device of a record of one device; nil where it has none, and for
	// drivers without NICs.
	RDMAInPod func(driver.Record) (*guard.RDMA, error)
	// FromPool says whether a claim takes addresses from a pool, of which the records alone
	// know which are free; nil for drivers that have none.
	FromPool func(driver.Claim) bool
	// Close is nil where nothing is open.
	Close func()
}

// Of finds out which halves a driver has.
func Of(p driver.Planner) Driver {
	d := Driver{Planner: p}
	d.Reader, _ = p.(driver.HostReader)
	d.Stager, _ = p.(driver.Stager)
	d.Attacher, _ = p.(driver.Attacher)
	d.Renewer, _ = p.(driver.Renewer)
	d.Pinner, _ = p.(driver.Pinner)
	d.MemoryLocker, _ = p.(driver.MemoryLocker)
	d.Describer, _ = p.(driver.Describer)
	d.ContainerEditor, _ = p.(driver.ContainerEditor)
	return d
}

// NeedsRuntime says whether a claim of the driver is only kept by NRI hooks.
func (d Driver) NeedsRuntime() bool { return d.Attacher != nil || d.Pinner != nil }
