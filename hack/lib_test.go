// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package hack tests the project's scripts.
package hack

import (
	"os/exec"
	"strings"
	"testing"
)

// A run that takes too long fails, and says how long it took and on what.
func TestWithin(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		want   []string
	}{
		"in time": {script: `SECONDS=3600; within 3600`},
		"late": {
			script: `took build 20; took demo 1800; took "" 7; SECONDS=3700; within 3600`,
			want:   []string{"it took 3700s, 100s more than the 3600s", "  1800s  demo\n    20s  build"},
		},
		"a step of a step": {
			script: `step outer bash -c 'source ./lib.sh; step inner true' >/dev/null; SECONDS=9; within 1`,
			want:   []string{"inner\n", "outer\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("bash", "-c", "source ./lib.sh\ncd hack\n"+tt.script)
			cmd.Env = append(cmd.Environ(), "STEPS="+t.TempDir()+"/steps")
			out, err := cmd.CombinedOutput()
			if (err != nil) != (tt.want != nil) {
				t.Errorf("%v:\n%s", err, out)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
		})
	}
}
