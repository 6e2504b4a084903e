// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"plumbline.dev/plumbline/internal/host/cgroup"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// ErrGone says that a container has no process any more, or none yet.
var ErrGone = errors.New("no process of the container is there")

// Options say where the kernel's file systems are.
type Options struct {
	// Proc and Sys are the host's /proc and /sys.
	Proc, Sys string
	// SysfsType is the type of file system that is accepted as a container's
	// sysfs (man 2 statfs): a pod may mount what it likes at /sys. 0 is the
	// kernel's.
	SysfsType int64
	// Device returns a device file's number, such as "195:0", and whether it is a
	// character device; nil is statx(2). Tests replace it, where a
	// plain directory stands for a container's /dev.
	Device func(directory int, name string) (number string, isDevice bool, err error)
	// PhysicalFunction tells of the virtual functions of the host's link with an index, by
	// their numbers; nil is rtnetlink. Tests replace it, where there are none.
	PhysicalFunction func(index int) (map[int]VFSettings, error)
	// Patience is how long a scan waits for pods that do not answer; 0 is 3 s.
	Patience time.Duration
}

// history is how long the threads of a container had run at a scan.
type history struct {
	scan  int
	ticks map[threadKey]uint64
}

// rememberedScans is for how many scans a container is remembered that is in none
// of them: a scan may be of some pods alone.
const rememberedScans = 16

// Reader observes pods. It remembers of the scan before how long threads had run. Its
// methods may be called by several goroutines, and run one at a time.
type Reader struct {
	options Options
	proc    *sysfs.Dir
	sys     *sysfs.Dir
	groups  *cgroup.Hierarchy // nil where there are none
	noGroup error

	mu      sync.Mutex
	ran     map[string]*history // by container id
	scans   int
	parents []string // of control groups of pods
	buf     []byte
	pods    pendingViews
	vfs     pendingVFs
	// Of the scan at hand: whether it is one in detail, NVIDIA's GPUs by their
	// minors, its capability files of parts of GPUs, the host's NICs by the index of
	// their interfaces, the names of all of its interfaces, and its files of RDMA; all but the first are nil until needed.
	detail    bool
	gpus      map[int]model.PCIAddress
	caps      *capabilities
	hostNICs  map[int]*model.PCIAddress
	hostNames map[int]string
	rdmaFiles map[string]RDMAFile
}

// Open opens the host's /proc and /sys.
func Open(o Options) (*Reader, error) {
	if o.SysfsType == 0 {
		o.SysfsType = sysfsMagic
	}
	if o.Device == nil {
		o.Device = deviceNumber
	}
	if o.Patience == 0 {
		o.Patience = answerWithin
	}
	procDir, err := sysfs.Open(o.Proc)
	if err != nil {
		return nil, fmt.Errorf("look at processes: %w", err)
	}
	sys, err := sysfs.Open(o.Sys)
	if err != nil {
		return nil, errors.Join(err, procDir.Close())
	}
	r := &Reader{options: o, proc: procDir, sys: sys, ran: map[string]*history{}, pods: pendingViews{}, buf: make([]byte, 64<<10)}
	r.groups, r.noGroup = cgroup.Open(r.groupRoot())
	return r, nil
}

// Close closes what Open opened.
func (r *Reader) Close() error {
	errs := []error{r.proc.Close(), r.sys.Close()}
	if r.groups != nil {
		errs = append(errs, r.groups.Close())
	}
	return errors.Join(errs...)
}

// Scan reads every target, in their order. In detail it also says where memory
// lies, which costs the kernel a summing up. A scan in detail answers a person: which
// threads ran since the scan before counts from the last one without detail, so that
// it hides nothing from the agent's own loop.
//
// All pods are read at the same time, and waited for no longer than the
// Reader's patience, or ctx: of one that does not answer, or not yet to the scan
// before, what it alone could tell is an ErrUnanswered.
func (r *Reader) Scan(ctx context.Context, targets []Target, detail bool) []Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.detail, r.gpus, r.caps, r.hostNICs = detail, r.gpuMinors(), nil, nil
	r.rdmaFiles, r.hostNames = nil, nil
	r.pods.forget()
	r.vfs.start(r.options, targets)
	pids, err := r.listProcesses(targets)
	pods := make([]Pod, 0, len(targets))
	for _, t := range targets {
		p := Pod{UID: t.UID}
		for _, c := range t.Containers {
			found := Container{Name: c.Name, ID: c.ID, Err: err}
			if err == nil {
				r.container(&found, t.UID, pids[c.ID])
			}
			p.Containers = append(p.Containers, found)
		}
		if first, some := firstProcesses(p.Containers); some {
			r.pods.start(t.UID, func() []view { return viewPod(r.options, first, t.RDMA) })
		}
		pods = append(pods, p)
	}
	r.awaitViews(ctx, targets, pods)
	if detail {
		return pods
	}
	r.scans++
	maps.DeleteFunc(r.ran, func(_ string, h *history) bool { return r.scans-h.scan > rememberedScans })
	return pods
}

// firstProcesses are those of a pod's containers, 0 for one that has none.
func firstProcesses(containers []Container) (pids []int, some bool) {
	pids = make([]int, len(containers))
	for i, c := range containers {
		if c.Err == nil {
			pids[i], some = c.Processes[0].PID, true
		}
	}
	return pids, some
}

// awaitViews waits for what the pods themselves show.
func (r *Reader) awaitViews(ctx context.Context, targets []Target, pods []Pod) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Patience)
	defer cancel()
	for i := range pods {
		p := &pods[i]
		var views []view
		var err error
		if _, some := firstProcesses(p.Containers); some {
			views, err = r.pods.await(ctx, p.UID)
		}
		r.shown(p, targets[i], views, err)
		r.stillThere(p)
		p.VirtualFunctions = r.vfs.await(ctx, targets[i].VirtualFunctions)
	}
}

// Unanswered is how many reads of pods were given up and still wait.
func (r *Reader) Unanswered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods.forget()
	return r.pods.late()
}

// read reads a file of /proc that the kernel gives in one piece; the bytes are
// the reader's until the next call.
func (r *Reader) read(name string) ([]byte, error) {
	n, err := r.proc.ReadAttribute(name, r.buf)
	if err != nil {
		return nil, err
	}
	if n == len(r.buf) {
		return nil, fmt.Errorf("%s: longer than %d bytes", name, n)
	}
	return r.buf[:n], nil
}
