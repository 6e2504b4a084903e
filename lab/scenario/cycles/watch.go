// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cycles

import (
	"fmt"
	"sync"
)

// Watcher judges samples. It knows what a pod is owed and remembers since when
// it has not had it.
type Watcher struct {
	mu sync.Mutex
	// patience is how long after the agent's return a pod may still be without
	// its NIC, in the node's own seconds.
	patience float64
	pods     map[string]*watched
	// upSince is since when the agent serves; negative while it does not.
	upSince    float64
	wrong      []string
	worst      float64
	samples    int
	sandboxPID map[string]int
	// faults counts those that ended a process.
	faults int
}

type watched struct {
	cycle Cycle
	// excused pods' NIC was taken from the machine: there is none to have.
	excused bool
	// has says that a container ran with its NIC in the last sample.
	has bool
	// nics are those last seen.
	nics []string
	pid  int
	// bareSince is since when a container runs without; negative when none
	// does. told says that this has been called wrong.
	bareSince float64
	told      bool
}

// NewWatcher returns a watcher of no pods.
func NewWatcher(patience float64) *Watcher {
	return &Watcher{patience: patience, pods: map[string]*watched{}, upSince: -1, sandboxPID: map[string]int{}}
}

func (w *Watcher) add(uid string, c Cycle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[uid] = &watched{cycle: c, bareSince: -1}
}

func (w *Watcher) remove(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
	delete(w.sandboxPID, uid)
}

// excuse says that the pod's NIC is taken away.
func (w *Watcher) excuse(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.pods[uid]; p != nil {
		p.excused = true
	}
}

// uids are the pods to look at, and how many faults there were before the look.
func (w *Watcher) uids() (uids []string, faults int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid := range w.pods {
		uids = append(uids, uid)
	}
	return uids, w.faults
}

// ended says that the agent or the runtime has just been ended: what was seen
// before says nothing of whether the agent serves.
func (w *Watcher) ended() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults++
	w.upSince = -1
}

// place is where a pod's container runs and what it has.
func (w *Watcher) place(uid string) (pid, sandbox int, nics []string, settled bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pods[uid]
	if p == nil {
		return 0, 0, nil, false
	}
	return p.pid, w.sandboxPID[uid], p.nics, p.pid != 0 && (p.has || p.excused) && w.upSince >= 0
}

// see takes a sample in that was begun after so many faults.
func (w *Watcher) see(s Sample, faults int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples++
	if !s.Up || faults != w.faults {
		w.upSince = -1
	} else if w.upSince < 0 {
		w.upSince = s.Time
	}
	for _, p := range w.pods {
		p.has, p.pid = false, 0
	}
	ran := map[string]bool{}
	for _, process := range s.Processes {
		p := w.pods[process.Pod]
		switch {
		case p == nil:
		case process.Sandbox:
			w.sandboxPID[process.Pod] = process.PID
		default:
			ran[process.Pod] = true
			p.pid, p.nics, p.has = process.PID, process.NICs, len(process.NICs) > 0
			w.judge(p, s.Time)
		}
	}
	for uid, p := range w.pods {
		if !ran[uid] {
			p.bareSince = -1 // nothing runs there that could miss it
		}
	}
}

// judge looks at one pod whose container runs.
func (w *Watcher) judge(p *watched, now float64) {
	if p.has || p.excused {
		if p.bareSince >= 0 && w.upSince >= 0 {
			w.worst = max(w.worst, now-max(p.bareSince, w.upSince))
		}
		p.bareSince, p.told = -1, false
		return
	}
	if p.bareSince < 0 {
		p.bareSince = now
	}
	if p.told {
		return
	}
	if p.cycle.Named {
		p.told = true
		w.wrong = append(w.wrong, fmt.Sprintf("%s: the container runs without its NIC", p.cycle))
		return
	}
	if waited := now - max(p.bareSince, w.upSince); w.upSince >= 0 && waited > w.patience {
		p.told = true
		w.wrong = append(w.wrong, fmt.Sprintf("%s: the pod runs without its NIC %.1fs after the agent's return", p.cycle, waited))
	}
}

// Wrong is what was seen that must not be.
func (w *Watcher) Wrong() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.wrong...)
}

// Worst is the longest that a pod was without its NIC while the agent served,
// in seconds; Samples is how often was looked.
func (w *Watcher) Worst() (seconds float64, samples int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.worst, w.samples
}
