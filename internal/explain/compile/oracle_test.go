// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compile_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/explain/compile"
	"plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/explain/solver"
)

var (
	cases = flag.Int("cases", 10_000, "how many random cases are compared with the scheduler's allocator; a tenth with -short")
	seed  = flag.Uint64("seed", 0, "the first case")
)

// patience is how long the scheduler's allocator may take for a case.
const patience = 5 * time.Second

// shards run beside each other.
const shards = 4

// What the solver says of nodes, claims and holders at random, the scheduler's
// allocator says too: fits, fits not, or ends with an error.
func TestVerdictsAreTheAllocators(t *testing.T) {
	n := *cases
	if testing.Short() {
		n /= 10
	}
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			compareVerdicts(t, *seed+uint64(shard*n/shards), *seed+uint64((shard+1)*n/shards))
		})
	}
}

func compareVerdicts(t *testing.T, from, to uint64) {
	t.Helper()
	verdicts := map[solver.Verdict]int{}
	late := 0
	selectors := compile.NewSelectors()
	for at := from; at < to; at++ {
		c := explaintest.Random(at)
		known := snapshot.New(c.Snapshot)
		oracle := explaintest.NewOracle(known, selectors.Compiled())
		compiler := compile.New(known, selectors)
		for _, name := range known.NodeNames() {
			node, err := compiler.Compile(context.Background(), known.Node(name), c.Claims)
			if err != nil {
				t.Fatalf("seed %d: %v", at, err)
			}
			s := solver.New(node.Problem)
			got := s.Solve(s.All())
			want, _, cause := oracle.Ask(t.Context(), name, c.Claims, patience)
			if want == solver.Unknown {
				t.Logf("seed %d, %s: the allocator ran out of time; we say %d", at, name, got.Verdict)
				late++
				continue
			}
			verdicts[want]++
			if got.Verdict != want || len(node.Unsupported) > 0 {
				text, _ := yaml.Marshal(c)
				t.Fatalf("seed %d, %s: verdict %d, the allocator says %d (%v); not judged: %v\n%s", at, name, got.Verdict, want, cause, node.Unsupported, text)
			}
		}
	}
	t.Logf("%d fit, %d do not, %d abort, %d out of time", verdicts[solver.Fits], verdicts[solver.FitsNot], verdicts[solver.Aborts], late)
}
