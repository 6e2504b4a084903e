// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/cli/clitest"
)

// documented compares a block of a page with what a command prints.
func documented(t *testing.T, page, kind, name, got string) {
	t.Helper()
	clitest.Documented(t, page, kind, name, got)
}

// fixture is the golden of another test.
func fixture(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDocumentedTopo(t *testing.T) {
	const page = "topo.md"
	documented(t, page, "output", "nodes", showNodes(t, "text"))
	documented(t, page, "output", "wide", showNodes(t, "wide", "gpu-node-2"))
	code, out, errOut := run(t, "topo", "--matrix", "--machine", "egx-t4-cx5")
	if code != exitOK {
		t.Fatal(errOut)
	}
	documented(t, page, "output", "matrix", out)
	documented(t, page, "output", "in-pod", fixture(t, "in-pod.txt"))
}

func TestDocumentedClaims(t *testing.T) {
	const page = "claims.md"
	claims := func(args string) string {
		t.Helper()
		code, out, errOut := run(t, strings.Fields("claim "+args)...)
		if code != exitOK {
			t.Fatal(args, errOut)
		}
		return out
	}
	documented(t, page, "manifest", "pair", claims("new pair --gpus 1 --nics 1 --cpus 4"))
	documented(t, page, "manifest", "socket", claims("new training --gpus 4 --nics 4 --cpus 16 --align socket"))
	documented(t, page, "manifest", "mig", claims("new parts --gpus 2 --mig-profile 1g.10gb --mig-same-gpu"))
	documented(t, page, "manifest", "share", claims("new share --gpus 2 --gpu-share shares=2"))
	documented(t, page, "manifest", "shared-nic", claims("new storage --nics 1 --shared --bandwidth 40G --pool fabric --template"))
	documented(t, page, "manifest", "fallback", claims("new pair --gpus 1 --nics 1 --fallback numa"))
	for name, args := range map[string]string{
		"fits":    "new pair --gpus 1 --nics 1 --cpus 4",
		"parts":   "new whole --gpus 8 --nics 8 --cpus 64",
		"refused": "new pair --gpus 1 --nics 1 --cpus 4 --machine azure-nd96isr-h100-v5",
	} {
		code, _, said := run(t, strings.Fields("claim "+args)...)
		if code != exitOK {
			t.Fatal(args, said)
		}
		documented(t, page, "output", name, said)
	}
	code, _, errOut := run(t, strings.Fields("claim new p5 --gpus 8 --nics 32")...)
	if code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	first, _, _ := strings.Cut(errOut, "\n")
	documented(t, page, "output", "split", first+"\n")

	file := filepath.Join(t.TempDir(), "training.yaml")
	if err := os.WriteFile(file, []byte(claims("new training --gpus 4 --nics 4 --cpus 16 --template")), 0o600); err != nil {
		t.Fatal(err)
	}
	documented(t, page, "output", "simulate", claims("simulate --machine a3-ultragpu-8g=2 --machine azure-nd96isr-h100-v5 -f "+file))
}

// The examples of every command's help are commands that there are, with flags
// that they have.
func TestExamplesOfHelp(t *testing.T) {
	for _, command := range []string{"topo", "topo nodes", "claim", "claim new", "claim simulate", "claim lint", "doctor", "bench", "bench tcp", "bench report"} {
		var out, errOut bytes.Buffer
		if code := Run(context.Background(), "plumbline", append(strings.Fields(command), "--help"), &out, &errOut); code != exitOK {
			t.Fatal(errOut.String())
		}
		found := 0
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "plumbline ") || strings.Contains(line, "[flags]") {
				continue
			}
			found++
			one, _, _ := strings.Cut(line, "|")
			one, _, _ = strings.Cut(one, ">")
			var helped, wrong bytes.Buffer
			args := append(strings.Fields(strings.ReplaceAll(one, `"`, ""))[1:], "--help")
			if code := Run(context.Background(), "plumbline", args, &helped, &wrong); code != exitOK {
				t.Errorf("%s: %s", line, wrong.String())
			}
		}
		if found == 0 {
			t.Errorf("the help of %s has no example", command)
		}
	}
}
