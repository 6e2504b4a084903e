// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package fixes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/snapshot"
)

// Limits of how many holders are tried alone, and how many are proposed at once.
const (
	maxHoldersTried = 16
	maxHoldersFreed = 6
	maxHolderFixes  = 2
)

// free takes devices from claims that have them: from one, or else from as few
// as it takes.
func (f *finder) free() {
	holders := f.holders()
	if len(holders) == 0 {
		return
	}
	found := 0
	for _, h := range holders[:min(len(holders), maxHoldersTried)] {
		if found < maxHolderFixes && f.propose(Free, "free "+f.holderText(h), f.without(h)) {
			found++
		}
	}
	if found > 0 || !f.fits(f.without(holders...)) {
		return
	}
	for i := len(holders) - 1; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(holders), i, i+1)
		if f.fits(f.without(fewer...)) {
			holders = fewer
		}
	}
	if len(holders) > maxHoldersFreed {
		return
	}
	var words []string
	for _, h := range holders {
		words = append(words, f.holderText(h))
	}
	f.propose(Free, "free "+strings.Join(words, " and "), f.without(holders...))
}

func (f *finder) without(holders ...*resourceapi.ResourceClaim) Trial {
	left := slices.DeleteFunc(slices.Clone(f.a.Cluster.Claims), func(c *resourceapi.ResourceClaim) bool { return slices.Contains(holders, c) })
	return Trial{Cluster: f.a.Cluster.WithClaims(left), Node: f.a.Node.Node.Name, Claims: f.claims}
}

// holders are the claims that have devices which would do, or parts of the same
// hardware; those with the fewest devices first.
func (f *finder) holders() []*resourceapi.ResourceClaim {
	wanted := map[*snapshot.Pool]bool{}
	var all []*resourceapi.ResourceClaim
	add := func(held *snapshot.Held) {
		if held == nil {
			return
		}
		for _, h := range held.Holders {
			if !h.Admin && !slices.Contains(all, h.Claim) {
				all = append(all, h.Claim)
			}
		}
	}
	requests, _ := f.conflictMembers()
	for _, p := range requests {
		for i := range f.request(p).Alternatives {
			for d, why := range f.request(p).Alternatives[i].Why {
				switch why.Obstacle {
				case compile.Taken, compile.TooLittleLeft:
					add(f.a.Devices[d].Held)
				case compile.PartsTaken:
					wanted[f.a.Devices[d].Pool] = true
				}
				// A share that is left may still be too little for all.
				if why.Obstacle == compile.None && f.a.Devices[d].Held != nil {
					add(f.a.Devices[d].Held)
				}
			}
		}
	}
	for d := range f.a.Devices {
		if wanted[f.a.Devices[d].Pool] {
			add(f.a.Devices[d].Held)
		}
	}
	slices.SortStableFunc(all, func(a, b *resourceapi.ResourceClaim) int {
		return cmp.Or(cmp.Compare(len(a.Status.Allocation.Devices.Results), len(b.Status.Allocation.Devices.Results)),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func (f *finder) holderText(c *resourceapi.ResourceClaim) string {
	var pods []string
	for _, consumer := range c.Status.ReservedFor {
		if consumer.APIGroup == "" && consumer.Resource == "pods" {
			pods = append(pods, consumer.Name)
		}
	}
	text := fmt.Sprintf("claim %s/%s", c.Namespace, c.Name)
	switch n := len(pods); {
	case n == 1:
		text += " (pod " + pods[0] + ")"
	case n > 1:
		text += fmt.Sprintf(" (pod %s and %d more)", pods[0], n-1)
	}
	return text
}
