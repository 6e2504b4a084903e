// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimestate

import (
	"os"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/types"
)

// Sandbox is a pod sandbox as the runtime shows it.
type Sandbox struct {
	// ID is the sandbox's own: a pod may have several, one after the other.
	ID              string
	UID             types.UID
	Namespace, Name string
	// Netns is empty for a pod in the host's network, and for one that has stopped.
	Netns string
	// Stopped: it had stopped when the runtime listed what it has, which is until the
	// kubelet removes it.
	Stopped bool
	// Static: the pod comes from the node and not from the API server, which
	// knows it under another UID and gives it no claims.
	Static bool
	// Admitted: the runtime has listed the sandbox, or RunPodSandbox has let it run.
	Admitted bool
}

func (s Sandbox) String() string { return s.Namespace + "/" + s.Name }

// SandboxOf reads what a hook or the listing shows of a sandbox.
func SandboxOf(p *api.PodSandbox) Sandbox {
	f := Sandbox{ID: p.GetId(), UID: types.UID(p.GetUid()), Namespace: p.GetNamespace(), Name: p.GetName()}
	// The kubelet writes this into every pod (pkg/kubelet/types, ConfigSourceAnnotationKey).
	source := p.GetAnnotations()["kubernetes.io/config.source"]
	f.Static = source == "file" || source == "http"
	for _, ns := range p.GetLinux().GetNamespaces() {
		if ns.GetType() == "network" {
			f.Netns = ns.GetPath()
		}
	}
	return f
}

func (s Sandbox) hasNamespace() bool {
	if s.Netns == "" {
		return false
	}
	_, err := os.Stat(s.Netns)
	return err == nil
}
