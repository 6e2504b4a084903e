// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/netns"
)

// namespaces are the network namespaces that devices are in, held open by a
// descriptor: a namespace that its pod has left lives on until the devices are
// back, so that the kernel neither renames nor destroys them. A descriptor is
// used and closed with its claim locked.
type namespaces struct {
	open func(path string) (namespace, error)

	mu   sync.Mutex
	held map[recordKey]namespace
	// observer may be nil.
	observer Observer
	// lookup finds the sandbox of a pod whose namespace is not held yet.
	lookup func(pod types.UID) (runtimestate.Sandbox, bool)
}

// namespace is an open network namespace.
type namespace struct {
	// id is the same for every way to the namespace.
	id any
	// sandbox is the ID of the sandbox that it is of.
	sandbox string
	// given is the path by which the runtime named it.
	given string
	// path reaches it as long as it is open.
	path  string
	close func()
}

// Observer follows in which network namespaces devices are, before they are
// attached and after they came back. It must not wait.
type Observer interface {
	// Held gets a path into the namespace, which is valid until Held returns.
	Held(r driver.Record, path string)
	Dropped(r driver.Record)
}

// recordKey names a record.
type recordKey struct {
	driver string
	claim  types.UID
}

func keyOf(r driver.Record) recordKey { return recordKey{driver: r.Driver, claim: r.Claim.UID} }

func newNamespaces(lookup func(types.UID) (runtimestate.Sandbox, bool)) *namespaces {
	return &namespaces{open: openNamespace, held: map[recordKey]namespace{}, lookup: lookup}
}

func openNamespace(path string) (namespace, error) {
	ns, err := netns.Open(path)
	if err != nil {
		return namespace{}, err
	}
	return namespace{
		id: ns.ID(), given: path, path: fmt.Sprintf("/proc/self/fd/%d", ns.Fd()),
		close: func() { _ = ns.Close() }, // nothing was written
	}, nil
}

// Of is a path to where the record's devices are, or belong.
func (n *namespaces) Of(r driver.Record) string {
	if held, ok := n.get(keyOf(r)); ok {
		return held.path
	}
	sandbox, _ := n.ofPods(r.Pods)
	return sandbox.Netns
}

func (n *namespaces) ofPods(pods []driver.PodRef) (runtimestate.Sandbox, bool) {
	for _, pod := range pods {
		if sandbox, ok := n.lookup(pod.UID); ok {
			return sandbox, true
		}
	}
	return runtimestate.Sandbox{}, false
}

// Drop lets go of the record's namespace.
func (n *namespaces) Drop(r driver.Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if held, ok := n.held[keyOf(r)]; ok {
		if n.observer != nil {
			n.observer.Dropped(r)
		}
		held.close()
		delete(n.held, keyOf(r))
	}
}

func (n *namespaces) get(key recordKey) (namespace, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	held, ok := n.held[key]
	return held, ok
}

// hold opens the sandbox's namespace for the record. elsewhere is true while the
// record's devices are held in another one: they must come back first.
func (n *namespaces) hold(r driver.Record, sandbox runtimestate.Sandbox) (held namespace, elsewhere bool, err error) {
	fresh, err := n.open(sandbox.Netns)
	if err != nil {
		return namespace{}, false, err
	}
	fresh.sandbox = sandbox.ID
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.held[keyOf(r)]
	switch {
	case ok && known.id == fresh.id:
		fresh.close()
		return known, false, nil
	case ok:
		fresh.close()
		return known, true, nil
	}
	n.held[keyOf(r)] = fresh
	if n.observer != nil {
		n.observer.Held(r, fresh.path)
	}
	return fresh, false, nil
}

// gone lists the records whose namespace the runtime has removed: its file is
// away, or another namespace lies there.
func (n *namespaces) gone() []recordKey {
	n.mu.Lock()
	all := make(map[recordKey]namespace, len(n.held))
	for key, held := range n.held {
		all[key] = held
	}
	n.mu.Unlock()
	var gone []recordKey
	for key, held := range all {
		now, err := n.open(held.given)
		if err == nil {
			now.close()
		}
		if errors.Is(err, netns.ErrGone) || err == nil && now.id != held.id {
			gone = append(gone, key)
		}
	}
	return gone
}

// closeAll lets go of everything, as the end of the process would.
func (n *namespaces) closeAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, held := range n.held {
		held.close()
		delete(n.held, key)
	}
}
