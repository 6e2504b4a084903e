// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// probeLimit is how long a cloud may take to be recognised.
const probeLimit = 5 * time.Second

// errNowhere: no candidate recognises the node.
var errNowhere = errors.New("no cloud recognised")

// detect asks all candidates at once and takes the first in their order that
// says yes, whichever answers first: the choice must be the same next time.
func detect(ctx context.Context, candidates []Provider) (Provider, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	said := make([]error, len(candidates))
	var all sync.WaitGroup
	for i, c := range candidates {
		all.Go(func() { said[i] = c.Probe(ctx) })
	}
	all.Wait()
	reasons := errNowhere
	for i, err := range said {
		if err == nil {
			return candidates[i], nil
		}
		reasons = fmt.Errorf("%w; %s: %w", reasons, candidates[i].Name(), err)
	}
	return nil, reasons
}
