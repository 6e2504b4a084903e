// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package podclaims

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/agent/runtimestate"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
)

// Holds says whether the record is the pod's.
func Holds(r driver.Record, pod types.UID) bool {
	return slices.ContainsFunc(r.Pods, func(p driver.PodRef) bool { return p.UID == pod })
}

// MustBeKnown says whether the pod must not run before the API watch has
// shown it: it could use a claim that another pod holds, of which the kubelet
// asks no driver. What the journal gives the pod the journal knows, a pod in the
// host's network must not wait, since the API server may be out of reach until it
// runs, where nothing is held there is nothing to take, and what a sandbox has it
// was given when it came up.
func MustBeKnown(s runtimestate.Sandbox, records []driver.Record, unreadable bool) bool {
	if s.Static || s.Admitted || s.Netns == "" {
		return false
	}
	for _, r := range records {
		if Holds(r, s.UID) {
			return false
		}
	}
	return len(records) > 0 || unreadable
}

// MayBeUnreadable says whether a record that cannot be read may be of the pod:
// whether it uses a claim of which there is no readable one.
func MayBeUnreadable(s runtimestate.Sandbox, records []driver.Record, facts *kube.Pod) bool {
	if s.Static {
		return false
	}
	if facts == nil {
		return true
	}
	return slices.ContainsFunc(facts.Claims, func(claim string) bool {
		return !slices.ContainsFunc(records, func(r driver.Record) bool {
			return r.Claim.Namespace == facts.Namespace && r.Claim.Name == claim && Holds(r, s.UID)
		})
	})
}

// AdmitSandbox returns the pod's records, or refuses it. moves says of which
// records something goes into a namespace; facts is nil while the pod is unknown to
// the API watch.
func AdmitSandbox(s runtimestate.Sandbox, records []driver.Record, facts *kube.Pod, moves func(driver.Record) bool) ([]driver.Record, error) {
	var mine []driver.Record
	for _, r := range records {
		switch {
		case Holds(r, s.UID) && s.Netns == "" && moves(r):
			return nil, fmt.Errorf("pod %s uses the host's network, so claim %s of %s cannot give it an interface: want hostNetwork: false", s, r.Claim, r.Driver)
		case Holds(r, s.UID):
			mine = append(mine, r)
		case Uses(facts, r) && !Replaced(r, records, s.UID):
			return nil, refuseSecondPod(s, r)
		}
	}
	return mine, nil
}

// Uses says whether a pod names the record's claim; one that is unknown does not.
func Uses(facts *kube.Pod, r driver.Record) bool {
	return facts != nil && facts.Namespace == r.Claim.Namespace && slices.Contains(facts.Claims, r.Claim.Name)
}

// Replaced says whether the pod holds another claim of the record's name: its own was
// deleted, and the devices have yet to come back.
func Replaced(r driver.Record, records []driver.Record, pod types.UID) bool {
	return slices.ContainsFunc(records, func(o driver.Record) bool {
		return o.Driver == r.Driver && o.Claim.UID != r.Claim.UID && o.Claim.String() == r.Claim.String() && Holds(o, pod)
	})
}

func refuseSecondPod(s runtimestate.Sandbox, r driver.Record) error {
	var names []string
	for _, p := range r.Pods {
		names = append(names, p.Name)
	}
	return fmt.Errorf("claim %s of %s is held by pod %s, so pod %s cannot have it: want a claim per pod, as resourceClaimTemplateName gives",
		r.Claim, r.Driver, strings.Join(names, ", "), s)
}
