// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"io/fs"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// Name is the DRA driver's name.
const Name = "dra.net"

// Options are what a Driver works on.
type Options struct {
	// Host is the host's network namespace; netns.Self for an agent with
	// hostNetwork.
	Host string
	// BootID is the kernel's boot id, kept in records.
	BootID string
	// Sys is /sys.
	Sys fs.FS
}

// Driver moves NICs. Its methods may be called concurrently for different
// claims.
type Driver struct {
	bootID string
	sys    fs.FS
	host   *side
}

var (
	_ driver.Planner  = (*Driver)(nil)
	_ driver.Attacher = (*Driver)(nil)
)

// New opens the host's namespace. Close the driver when done.
func New(o Options) (*Driver, error) {
	host, err := openSide(o.Host)
	if err != nil {
		return nil, fmt.Errorf("start driver %s: %w", Name, err)
	}
	return &Driver{bootID: o.BootID, sys: o.Sys, host: host}, nil
}

// Close closes what New opened.
func (d *Driver) Close() { d.host.close() }

// Name is the DRA driver's name.
func (d *Driver) Name() string { return Name }

// Plan reads the state of the claimed NICs, and decides.
func (d *Driver) Plan(c driver.Claim, m *model.Machine, held []driver.Record) (driver.Record, error) {
	p := planner{
		claim:  c,
		held:   held,
		m:      m,
		bootID: d.bootID,
		rdmaCM: hasRDMACM(d.sys),
		state:  d.stateToTake,
	}
	return p.plan()
}

// hasRDMACM says whether containers will find /dev/infiniband/rdma_cm on the
// host, which the kernel makes for this misc device
// (drivers/infiniband/core/ucma.c).
func hasRDMACM(sys fs.FS) bool { return exists(sys, "class/misc/rdma_cm") }

func exists(root fs.FS, path string) bool {
	_, err := fs.Stat(root, path)
	return err == nil
}

// side is a network namespace with a socket in it.
type side struct {
	namespace *netns.Namespace
	conn      *rtnl.Conn
}

func openSide(path string) (*side, error) {
	ns, err := netns.Open(path)
	if err != nil {
		return nil, err
	}
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		_ = ns.Close() // the first error is the one to tell
		return nil, err
	}
	return &side{namespace: ns, conn: conn}, nil
}

func (s *side) close() {
	s.conn.Close()
	_ = s.namespace.Close() // nothing was written
}
