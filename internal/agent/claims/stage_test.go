// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/driver"
)

// teacher is a stager that learns something, or nothing.
type teacher struct{ learns string }

func (s teacher) Stage(_ context.Context, r driver.Record) (driver.Record, error) {
	r.Devices = slices.Clone(r.Devices)
	if s.learns != "" {
		r.Devices[0].Plan = json.RawMessage(s.learns)
	}
	return r, nil
}

func (teacher) Unstage(context.Context, driver.Record) error { return nil }

// A record is written once, before anything is done, and again only with what
// staging learned.
func TestJournalIsWrittenAgainOnlyForWhatStagingLearned(t *testing.T) {
	for name, learns := range map[string]string{"nothing": "", "a lease": `{"lease":1}`} {
		t.Run(name, func(t *testing.T) {
			n, d := newNode(t), &agenttest.FakeDriver{DriverName: "dra.net"}
			p := n.start(d)
			p.Stager = teacher{learns: learns}
			files := map[Step]os.FileInfo{}
			p.OnStep = func(s Step) {
				info, err := os.Stat(filepath.Join(n.journalPath, "dra.net", "a-uid.json"))
				if err != nil {
					t.Fatal(err)
				}
				files[s] = info
			}
			if _, err := p.Prepare(t.Context(), agenttest.ClaimFor("a", "nic0")); err != nil {
				t.Fatal(err)
			}
			// Each write makes a new file.
			if again := !os.SameFile(files[StepPlanned], files[StepSpecWritten]); again != (learns != "") {
				t.Errorf("written again: %t", again)
			}
			r, err := n.journal.Get("dra.net", "a-uid")
			if err != nil {
				t.Fatal(err)
			}
			var plan struct{ Lease int }
			if learns != "" && (json.Unmarshal(r.Devices[0].Plan, &plan) != nil || plan.Lease != 1) {
				t.Errorf("the journal has %s, want what was learned", r.Devices[0].Plan)
			}
		})
	}
}
