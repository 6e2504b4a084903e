// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// walk calls each with every file, link and directory below dir, deepest last.
func walk(dir string, each func(path string)) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		each(path)
		return err
	})
}

// A container may make what it likes of its own file system.
func TestHostileContainers(t *testing.T) {
	tests := map[string]func(t *testing.T, root string, p *verifytest.Pod){
		"/sys leads out of the container": func(t *testing.T, root string, _ *verifytest.Pod) {
			elsewhere := t.TempDir()
			if err := os.Rename(root+"/sys", elsewhere+"/sys"); err != nil {
				t.Fatal(err)
			}
			symlink(t, elsewhere+"/sys", root+"/sys")
		},
		"/sys shows other interfaces": func(t *testing.T, root string, _ *verifytest.Pod) {
			if err := os.Rename(root+"/sys/class/net/net0", root+"/sys/class/net/net9"); err != nil {
				t.Fatal(err)
			}
		},
		"/sys shows more interfaces": func(t *testing.T, root string, _ *verifytest.Pod) {
			symlink(t, "../../devices/virtual/net/net9", root+"/sys/class/net/net9")
		},
		"/dev is full": func(t *testing.T, root string, _ *verifytest.Pod) {
			for i := range 9000 {
				symlink(t, "null", fmt.Sprintf("%s/dev/%d", root, i))
			}
		},
		"an unknown GPU": func(t *testing.T, root string, _ *verifytest.Pod) {
			if err := os.WriteFile(root+"/dev/\x1b[31m\xff", []byte("195:77\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"an environment without end": func(t *testing.T, root string, p *verifytest.Pod) {
			text := "DRA_CPUSET_claim-" + p.UID + "=4-7\x00" + strings.Repeat("A=b\x00", 1<<16)
			if err := os.WriteFile(filepath.Dir(root)+"/environ", []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"CPUs beyond all numbers": func(t *testing.T, root string, p *verifytest.Pod) {
			text := "DRA_CPUSET_claim-" + p.UID + "=0-2147483647\x00"
			if err := os.WriteFile(filepath.Dir(root)+"/environ", []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		},
	}
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	for name, attack := range tests {
		t.Run(name, func(t *testing.T) {
			p, allocated := trainOn(t, n)
			attack(t, n.Path(fmt.Sprintf("proc/%d/root", p.PID)), p)
			got := verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{allocated.Expect()}, true)[0]
			if got.Status != evaluate.Unknown {
				t.Error(explain(got))
			}
		})
	}
}

// A pod that says nothing of itself in the environment is held to the number
// and the node of its CPUs.
func TestUntold(t *testing.T) {
	n, p, allocated := tutorial(t)
	p.EnvCPUs = nil
	n.Write(t, p)
	if got := verify.Check(t.Context(), n.Machine, n.Reader(t), []expect.Pod{allocated.Expect()}, false)[0]; got.Status != evaluate.True {
		t.Error(explain(got))
	}
}

// The container's sysfs must be one: a pod may mount an empty directory there.
func TestSysMustBeSysfs(t *testing.T) {
	n, _, allocated := tutorial(t)
	r := n.RealReader(t)
	got := verify.Check(t.Context(), n.Machine, r, []expect.Pod{allocated.Expect()}, false)[0]
	if got.Status != evaluate.Unknown || !strings.Contains(got.Message, "is not the kernel's") {
		t.Error(explain(got))
	}
}

// What the API server says may be wrong in any way.
func TestHostileObjects(t *testing.T) {
	n, _, allocated := tutorial(t)
	r := n.Reader(t)
	tests := map[string]func(p *expect.Pod){
		"no claim":                   func(p *expect.Pod) { p.Missing = []string{"gone"} },
		"no container":               func(p *expect.Pod) { p.Containers = nil },
		"another container":          func(p *expect.Pod) { p.Containers[0].ID = strings.Repeat("f", 64) },
		"ended":                      func(p *expect.Pod) { p.Ended = true },
		"a GPU nobody publishes":     func(p *expect.Pod) { p.Claims[0].Devices[0].PCI = nil },
		"CPUs without a number":      func(p *expect.Pod) { p.Claims[0].Devices[2].CPUCount = 0 },
		"a constraint of a new kind": func(p *expect.Pod) { p.Claims[0].Constraints[0].MatchAttribute = nil },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			expected := allocated.Expect()
			change(&expected)
			got := verify.Check(t.Context(), n.Machine, r, []expect.Pod{expected}, false)[0]
			if got.Status != evaluate.Unknown {
				t.Error(explain(got))
			}
		})
	}
}

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}
