// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/agent/status"
)

// quarantine is which claims have a status that says Quarantined.
type quarantine struct {
	mu     sync.Mutex
	claims map[types.UID]bool
}

// report has the claims in doubt say so, and those that no longer are; all of them
// after a connection began, since an agent before this one may have told them
// else. Nothing is written twice.
func (q *quarantine) report(s *placement, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.claims
	q.claims = map[types.UID]bool{}
	for _, r := range s.records {
		err := s.doubts[r.Claim.UID]
		switch {
		case err != nil:
			q.claims[r.Claim.UID] = true
			s.preparer.Status(status.Of(r, status.Quarantined, err))
		case all || before[r.Claim.UID]:
			s.preparer.Status(status.Of(r, status.Prepared, nil))
		}
	}
}
