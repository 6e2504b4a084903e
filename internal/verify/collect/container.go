// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"syscall"

	"plumbline.dev/plumbline/internal/host/procfs"
)

// threadKey is a thread's identity.
type threadKey struct {
	id    int
	start uint64
}

// ended says whether an error is that of a process that has ended meanwhile:
// its directory is gone, or reads of a file below it that is still open fail with ESRCH.
func ended(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// container fills in what the kernel says of a container by itself.
func (r *Reader) container(c *Container, podUID string, pids []int) {
	var before map[threadKey]uint64
	if h := r.ran[c.ID]; h != nil {
		before = h.ticks
	}
	now := map[threadKey]uint64{}
	for _, pid := range pids {
		p, err := r.process(pid, before, now)
		if ended(err) {
			continue
		}
		if err != nil {
			c.Err = fmt.Errorf("process %d: %w", pid, err)
			return
		}
		c.Processes = append(c.Processes, p)
	}
	if !r.detail {
		r.ran[c.ID] = &history{scan: r.scans, ticks: now}
	}
	if len(c.Processes) == 0 {
		c.Err = ErrGone
		return
	}
	// The oldest is the container's first.
	slices.SortFunc(c.Processes, func(a, b Process) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID)) })
	r.granted(c, podUID)
}

func (r *Reader) process(pid int, before, now map[threadKey]uint64) (Process, error) {
	p := Process{PID: pid}
	dir := strconv.Itoa(pid)
	text, err := r.read(dir + "/status")
	if err != nil {
		return p, err
	}
	status, err := procfs.ParseStatus(text)
	if err != nil {
		return p, err
	}
	p.Allowed = Sets{CPUs: status.CPUs, Mems: status.Mems}
	if p.Start, err = r.start(pid); err != nil {
		return p, err
	}
	threads, err := r.proc.ReadDir(dir + "/task")
	if err != nil {
		return p, err
	}
	for _, entry := range threads {
		t, err := r.thread(dir+"/task/"+entry.Name(), entry.Name(), before, now)
		if ended(err) {
			continue // of many threads some end
		}
		if err != nil {
			return p, err
		}
		p.Threads = append(p.Threads, t)
	}
	return p, nil
}

func (r *Reader) thread(dir, name string, before, now map[threadKey]uint64) (Thread, error) {
	id, err := strconv.Atoi(name)
	if err != nil {
		return Thread{}, fmt.Errorf("thread %.20q: want a number", name)
	}
	text, err := r.read(dir + "/stat")
	if err != nil {
		return Thread{}, err
	}
	s, err := procfs.ParseStat(text)
	if err != nil {
		return Thread{}, err
	}
	key := threadKey{id: id, start: s.Start}
	now[key] = s.Ticks
	last, known := before[key]
	return Thread{ID: id, CPU: s.CPU, Ran: known && s.Ticks > last}, nil
}

// start is when a process started.
func (r *Reader) start(pid int) (uint64, error) {
	text, err := r.read(strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	s, err := procfs.ParseStat(text)
	return s.Start, err
}

// stillThere takes back what was read of a container whose first process is
// another one by now: half of it may be of the one before, or of none.
func (r *Reader) stillThere(p *Pod) {
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Err != nil {
			continue
		}
		first := c.Processes[0]
		if start, err := r.start(first.PID); err != nil || start != first.Start {
			*c = Container{Name: c.Name, ID: c.ID, Err: fmt.Errorf("the container ended while it was looked at: %w", ErrGone)}
		}
	}
}
