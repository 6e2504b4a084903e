// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"fmt"
	"io/fs"
	"sync"
	"time"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/hoststate"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/driver/netdev/podstate"
	"plumbline.dev/plumbline/internal/host/bpf"
	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/host/sysctl"
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
	// ProcSys is the path of /proc/sys, which must be writable; /proc/sys where
	// it is empty.
	ProcSys string
	// BPFFS is the path of the BPF file system, where programs that were taken
	// off a NIC are kept; empty where there is none, so that no NIC with
	// programs is taken.
	BPFFS string
	// AllowLoss takes NICs although something on them, such as a classful
	// queueing discipline, will not come back.
	AllowLoss bool
	// Machine is the newest scan of the host, for the topology files of containers; nil
	// where none are made.
	Machine func() *model.Machine
	// Pools are those that claims take addresses from; nil where there are none.
	Pools Pools
	// Now is the clock; time.Now where it is nil.
	Now func() time.Time
}

// Driver moves NICs. Its methods may be called concurrently for different
// claims.
type Driver struct {
	bootID  string
	sys     fs.FS
	procSys string
	now     func() time.Time
	machine func() *model.Machine
	host    *hoststate.Host
	rdma    rdmaSystem
	pools   Pools
	// podSys opens /sys as a pod's network namespace shows it.
	podSys func(namespace int) (fs.FS, func(), error)

	// mutex guards spent, the counts of connections into pods that are closed.
	mutex sync.Mutex
	spent rtnl.Counts
}

var (
	_ driver.Planner      = (*Driver)(nil)
	_ driver.HostReader   = (*Driver)(nil)
	_ driver.Attacher     = (*Driver)(nil)
	_ driver.Stager       = (*Driver)(nil)
	_ driver.Renewer      = (*Driver)(nil)
	_ driver.MemoryLocker = (*Driver)(nil)

	_ driver.ContainerEditor = (*Driver)(nil)
)

// programsDir is where programs that were taken off a NIC are kept, below the
// BPF file system.
const programsDir = "/plumbline"

// New opens the host's namespace. Close the driver when done.
func New(o Options) (*Driver, error) {
	if o.ProcSys == "" {
		o.ProcSys = "/proc/sys"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	host, err := nslink.Open(o.Host)
	if err != nil {
		return nil, fmt.Errorf("start driver %s: %w", Name, err)
	}
	tool, err := ethtool.Dial(host.Fd())
	if err != nil {
		host.Close()
		return nil, fmt.Errorf("start driver %s: %w", Name, err)
	}
	return &Driver{
		bootID: o.BootID, sys: o.Sys, procSys: o.ProcSys, now: o.Now, machine: o.Machine, pools: o.Pools, rdma: kernelRDMA{}, podSys: openSys,
		host: &hoststate.Host{
			NetNSConn: host, Ethtool: tool, Sysctl: sysctl.New(o.ProcSys, host.Fd()), Sys: o.Sys,
			Programs: bpf.Store{Dir: o.BPFFS + programsDir}, BPFFS: o.BPFFS, AllowLoss: o.AllowLoss,
		},
	}, nil
}

// Close closes what New opened.
func (d *Driver) Close() {
	d.host.Ethtool.Close()
	d.host.Close()
}

// Name is the DRA driver's name.
func (d *Driver) Name() string { return Name }

// openPod opens the pod's network namespace.
func (d *Driver) openPod(path string) (*podstate.Pod, error) {
	pod, err := nslink.Open(path)
	if err != nil {
		return nil, err
	}
	pod.OnChange(d.host.Changed)
	pod.Limit(rtnl.PodEntries)
	return &podstate.Pod{NetNSConn: pod, Sysctl: sysctl.New(d.procSys, pod.Fd())}, nil
}

func (d *Driver) closePod(pod *podstate.Pod) {
	d.mutex.Lock()
	d.spent = d.spent.Add(pod.Counts())
	d.mutex.Unlock()
	pod.Close()
}

// Counts are the counts of all of the driver's rtnetlink connections so far, those that
// are closed included.
func (d *Driver) Counts() rtnl.Counts {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.spent.Add(d.host.Counts())
}
