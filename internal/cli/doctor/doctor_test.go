// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/doctor"
	"plumbline.dev/plumbline/internal/machine"
)

// rootOf writes a shipped machine's /sys below a folder.
func rootOf(t *testing.T, name string) string {
	t.Helper()
	facts, err := machine.OpenFacts(name)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := machine.Render(facts)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := tree.WriteTo(filepath.Join(root, "sys")); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestDoctor(t *testing.T) {
	root := rootOf(t, "a3-ultragpu-8g")
	text, err := clitest.Run(t, NewCommand(""), "", "--root", root)
	if code := new(cmdutil.ExitError); !errors.As(err, code) || code.Code != exitWrong {
		t.Errorf("error %v, want exit code %d: there is no container runtime in that tree", err, exitWrong)
	}
	for _, want := range []string{
		"CHECK", "runtime ", "/run/nri/nri.sock", "containerd 2 has NRI on by default", " wrong, ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "  ok  ") {
		t.Errorf("what is right is printed without --all:\n%s", text)
	}
	all, _ := clitest.Run(t, NewCommand(""), "", "--root", root, "--all")
	if !strings.Contains(all, "  ok  ") {
		t.Errorf("--all prints nothing that is right:\n%s", all)
	}
	encoded, _ := clitest.Run(t, NewCommand(""), "", "--root", root, "-o", "json")
	var report Report
	if err := json.Unmarshal([]byte(encoded), &report); err != nil {
		t.Fatal(err)
	}
	n := doctor.Count(report.Findings)
	if want := fmt.Sprintf("%s: %d ok, %d wrong, %d unknown\n", report.Node, n[hosts.OK], n[hosts.Wrong], n[hosts.Unknown]); !strings.HasSuffix(text, want) {
		t.Errorf("text and JSON do not agree: want %q at the end of\n%s", want, text)
	}
	learnAndExpect(t, root)
}

// learnAndExpect has a host compared with its own profile, and with one that wants more.
func learnAndExpect(t *testing.T, root string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a3.yaml")
	text, err := clitest.Run(t, NewCommand(""), "", "--root", root, "--learn", file)
	if err != nil || !strings.HasPrefix(text, file+": the profile of ") || !strings.Contains(text, "learn from a good host") {
		t.Errorf("error %v, want that the profile is written, and that the host is none to learn from: %s", err, text)
	}
	text, _ = clitest.Run(t, NewCommand(""), "", "--root", root, "--expect", file, "--all")
	if !strings.Contains(text, "\nexpect ") || strings.Contains(text, "\nexpect: ") {
		t.Errorf("compared with its own profile:\n%s", text)
	}
	learned, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	more := strings.Replace(string(learned), "count: 8", "count: 9", 1)
	if err := os.WriteFile(file, []byte(more), 0o600); err != nil || more == string(learned) {
		t.Fatal(err, more)
	}
	text, err = clitest.Run(t, NewCommand(""), "", "--root", root, "--expect", file)
	if !errors.As(err, new(cmdutil.ExitError)) || !strings.Contains(text, "\nexpect: want count 9\n") {
		t.Errorf("error %v, want that a device is missing:\n%s", err, text)
	}
}

func TestDoctorRefuses(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "xml"}, `output format "xml"`},
		{[]string{"--root", t.TempDir()}, "no host's root directory"},
		{[]string{"now"}, "now"},
	} {
		if _, err := clitest.Run(t, NewCommand(""), "", tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("doctor %s: %v, want %q", strings.Join(tc.args, " "), err, tc.want)
		}
	}
}

// BenchmarkDoctorHost is doctor of the host that it runs on, from the scan to the last line.
func BenchmarkDoctorHost(b *testing.B) {
	for b.Loop() {
		var out bytes.Buffer
		cmd := NewCommand("")
		cmd.SetArgs([]string{"--all"})
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(context.Background()); err != nil && !errors.As(err, new(cmdutil.ExitError)) {
			b.Fatal(err)
		}
		if !strings.Contains(out.String(), " ok, ") {
			b.Fatal(out.String())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms")
}

// TestPageListsEveryCheck keeps the table of docs/hosts.md and the checks equal.
func TestPageListsEveryCheck(t *testing.T) {
	_, rest, found := strings.Cut(docstest.Page(t, "hosts.md"), "<!-- checks: begin -->\n")
	got, _, closed := strings.Cut(rest, "<!-- checks: end -->")
	if !found || !closed {
		t.Fatal("hosts.md has no table of checks")
	}
	want := "| Check | Severity | Looks at |\n|---|---|---|\n"
	for _, c := range doctor.Checks() {
		want += fmt.Sprintf("| `%s` | %s | %s |\n", c.Name, c.Severity, c.About)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
