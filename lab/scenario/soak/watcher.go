// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"sync"
)

// Watcher checks samples: no container of a pod may run without the pod's NIC, whether
// it or the pod names the claim, also while the agent, containerd or the kubelet is down.
type Watcher struct {
	mu   sync.Mutex
	pods map[string]*watchedPod
	// up says that the agent serves.
	up         bool
	wrong      []string
	samples    int
	sandboxPID map[string]int
	// faults counts those that ended a process.
	faults int
}

type watchedPod struct {
	cycle Cycle
	// nicRemoved says that the pod's NIC was taken from the machine.
	nicRemoved bool
	// leaving pods are being deleted.
	leaving bool
	// has says that a container ran with its NIC in the last sample.
	has bool
	// nics are those last seen.
	nics []string
	pid  int
	// reported says that the missing NIC has been reported.
	reported bool
}

// NewWatcher returns a watcher of no pods.
func NewWatcher() *Watcher {
	return &Watcher{pods: map[string]*watchedPod{}, sandboxPID: map[string]int{}}
}

func (w *Watcher) add(uid string, c Cycle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[uid] = &watchedPod{cycle: c}
}

func (w *Watcher) remove(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
	delete(w.sandboxPID, uid)
}

// nicRemoved says that the pod's NIC is taken from the machine.
func (w *Watcher) nicRemoved(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.pods[uid]; p != nil {
		p.nicRemoved = true
	}
}

// leave says that the pod is about to be deleted.
func (w *Watcher) leave(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.pods[uid]; p != nil {
		p.leaving = true
	}
}

// uids are the pods to sample, and how many faults there were before the sample.
func (w *Watcher) uids() (uids []string, faults int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid := range w.pods {
		uids = append(uids, uid)
	}
	return uids, w.faults
}

// ended says that the agent or the runtime has just been killed: a sample begun before
// does not show whether the agent serves.
func (w *Watcher) ended() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults++
	w.up = false
}

// place is where a pod's container runs and what it has.
func (w *Watcher) place(uid string) (pid, sandbox int, nics []string, settled bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pods[uid]
	if p == nil {
		return 0, 0, nil, false
	}
	return p.pid, w.sandboxPID[uid], p.nics, w.up && p.settled()
}

// allSettled says whether the agent serves and each of the pods that is still to
// run does, with its NIC.
func (w *Watcher) allSettled(uids []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uid := range uids {
		if p := w.pods[uid]; p != nil && !p.leaving && !p.settled() {
			return false
		}
	}
	return w.up
}

func (p *watchedPod) settled() bool { return p.pid != 0 && (p.has || p.nicRemoved) }

// see evaluates a sample that was begun after so many faults.
func (w *Watcher) see(s Sample, faults int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples++
	w.up = s.Up && faults == w.faults
	for _, p := range w.pods {
		p.has, p.pid = false, 0
	}
	for _, process := range s.Processes {
		p := w.pods[process.Pod]
		switch {
		case p == nil:
		case process.Sandbox:
			w.sandboxPID[process.Pod] = process.PID
		default:
			p.pid, p.nics, p.has = process.PID, process.NICs, len(process.NICs) > 0
			w.checkNIC(p)
		}
	}
}

// checkNIC checks one pod whose container runs.
func (w *Watcher) checkNIC(p *watchedPod) {
	bare := !p.has && !p.nicRemoved
	if bare && !p.reported {
		w.wrong = append(w.wrong, fmt.Sprintf("%s: the container runs without its NIC", p.cycle))
	}
	p.reported = bare
}

// Wrong is what was seen that must not be.
func (w *Watcher) Wrong() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.wrong...)
}

// Samples is how many there were.
func (w *Watcher) Samples() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.samples
}
