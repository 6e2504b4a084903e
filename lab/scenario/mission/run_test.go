// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mission

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// kubectlScript stands in for kubectl: it makes what a folder holds, and answers of its own.
const kubectlScript = `case $1 in
kustomize) cat "$2/made.yaml";;
exec) echo "in $2:"; shift 3; "$@" >answer 2>&1; rc=$?; cat answer; exit $rc;;
get) echo "$2 Running 7s"; echo "warned" >&2;;
later) n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n; [ $n -ge 1 ] && echo ready;;
*) echo "unknown command $1" >&2; exit 1;;
esac`

// document has made.yaml as kustomize would make it.
func writeExample(t *testing.T, folder, overlay, made string) {
	t.Helper()
	dir := filepath.Join(folder, "doc", overlay)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"kustomization.yaml": "", "made.yaml": made, "pod.yaml": "kind: Pod\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// typeRows runs rows on a machine that is none, and returns what the run said.
func typeRows(t *testing.T, deviations string, rows string) (string, error) {
	t.Helper()
	table, err := Read([]byte("deviations: " + deviations + "\nmachines: [{name: a3, is: a machine}]\ndocuments:\n" +
		"- name: doc\n  title: A document\n  machine: a3\n  rows:\n" + rows))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	script := filepath.Join(folder, "script")
	if err := os.WriteFile(script, []byte(kubectlScript), 0o600); err != nil {
		t.Fatal(err)
	}
	const pods = "kind: Pod\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: b}\n"
	writeExample(t, folder, "manifests", pods)
	writeExample(t, folder, "lab", strings.Replace(pods, "{name: a}", "{name: a, uid: lab/image}", 1))
	stopped := false
	var out strings.Builder
	err = Run(t.Context(), Config{
		Table: table, Examples: folder, Out: &out,
		Start: map[string]func(context.Context) (*Lab, error){"a3": func(context.Context) (*Lab, error) {
			return &Lab{
				Folder: filepath.Join(folder, "it's typed here"), Programs: map[string][]string{"kubectl": {"sh", script}},
				Environment: []string{"KUBECONFIG=of-the-lab"}, LabImage: "lab/image", Image: "other/image",
				Shell: func(_ context.Context, script string, _ ...string) (string, error) {
					if script == "lspci" {
						return "", errors.New("sh: lspci: not found")
					}
					return "on the node: " + script + "\n", nil
				},
				Stop: func(context.Context) error { stopped = true; return nil },
			}, nil
		}},
	})
	if !stopped {
		t.Error("the machine runs still")
	}
	return out.String(), err
}

func TestRowsThatAreRight(t *testing.T) {
	out, err := typeRows(t, "5", `
  - {id: shell, at: h, line: 1, command: 'echo $KUBECONFIG "$(pwd | sed s,.*/,,)" | tr a-z A-Z', prints: OF-THE-LAB DOC, judge: {by: exact}}
  - {id: node, at: h, line: 1, in: node, command: uname, prints: 'on the node: uname', judge: {by: exact}}
  - {id: pod, at: h, line: 1, in: pod a, command: 'echo "$((1 + 1))"', prints: "in a:\n2", judge: {by: exact}}
  - {id: filled, at: h, line: 1, command: kubectl get NAME, fill: {NAME: echo b}, prints: b Running 7s, judge: {by: lines}}
  - {id: waits, at: h, line: 1, command: kubectl later, wait: true, prints: ready, judge: {by: exact}}
  - {id: file, at: h, line: 1, file: pod.yaml}
  - {id: file's, at: h, line: 1, command: cat pod.yaml, prints: 'kind: Pod', judge: {by: exact}}
  - {id: beside, at: h, line: 1, command: 'until [ -e met ]; do sleep 0.05; done; echo met', background: true, prints: met, judge: {by: exact}}
  - {id: met, at: h, line: 1, command: touch met, judge: {by: succeeds}}
  - {id: leaves, at: h, line: 1, command: 'sleep 60 & echo gone', prints: gone, judge: {by: exact}}
  - {id: cloud, at: h, line: 1, command: gcloud version, deviation: {reason: cloud-cli, because: None is here.}}
  - id: overlay
    at: h
    line: 1
    file: other.yaml
    check: cat other.yaml
    judge: {by: pattern, want: ['uid: other/image']}
    deviation: {reason: image, because: It is., overlay: lab, files: {other.yaml: [Pod a]}}
  - id: other-answer
    at: h
    line: 1
    command: kubectl get a
    prints: a Pending
    judge: {by: exact}
    deviation: {reason: machine, because: It runs., prints: a Running 7s, judge: {by: exact}}
  - id: other-command
    at: h
    line: 1
    command: kubectl label a
    prints: labelled
    judge: {by: exact}
    deviation: {reason: component, because: It is., command: kubectl get c, prints: c Running 7s, judge: {by: exact}}
  - id: fails
    at: h
    line: 1
    in: node
    command: lspci
    prints: a GPU
    judge: {by: lines}
    deviation: {reason: hardware, because: None is here., judge: {by: fails, want: [not found]}}
`)
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	for _, want := range []string{
		"  ok     other-command: component, kubectl get c\n", "  -      cloud: cloud-cli, not run\n",
		"14 rows run, of which 10 are as printed; 5 deviations declared, of which nothing is run of 1; the table allows 5\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

func TestRowsThatAreWrong(t *testing.T) {
	for name, tc := range map[string]struct{ deviations, row, want string }{
		"another answer":   {"0", "command: kubectl get a, prints: b Running 7s, judge: {by: exact}", `one: line "a Running 7s", printed "b Running 7s"`},
		"it fails":         {"0", "command: kubectl label a, judge: {by: succeeds}", "one: exit code 1: unknown command label"},
		"nothing to fill":  {"0", "command: kubectl get NAME, fill: {NAME: 'true'}, judge: {by: succeeds}", "one: fill in NAME by true"},
		"no such manifest": {"0", "file: none.yaml", "one: open "},
		"stale answer": {
			"1", "command: kubectl get a, prints: a Running, judge: {by: pattern, want: [Running]}, deviation: {reason: machine, because: It is., judge: {by: succeeds}}",
			"one: the declared deviation is none: it prints what the document prints",
		},
		"stale command": {
			"1", "command: kubectl get a, judge: {by: succeeds}, deviation: {reason: component, because: It is., command: kubectl get b, judge: {by: succeeds}}",
			"one: the declared deviation is none: kubectl get a does as the document prints it",
		},
		"stale overlay": {
			"1", "file: b.yaml, deviation: {reason: image, because: It is., overlay: lab, files: {b.yaml: [Pod b]}}",
			"one: save b.yaml: the declared deviation is none: overlay lab has the document's own objects",
		},
		"no such object": {
			"1", "file: b.yaml, deviation: {reason: image, because: It is., overlay: lab, files: {b.yaml: [Pod c]}}",
			"one: save b.yaml: overlay lab of doc has no Pod c",
		},
		"another deviation": {
			"1", "command: kubectl get a, prints: b, judge: {by: exact}, deviation: {reason: machine, because: It is., prints: c, judge: {by: exact}}",
			`one: line "a Running 7s", printed "c"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := typeRows(t, tc.deviations, "  - {id: one, at: h, line: 1, "+tc.row+"}\n  - {id: two, at: h, line: 2, command: 'true', judge: {by: succeeds}}\n")
			if !errors.Is(err, harness.ErrFailed) || !strings.Contains(out, "  WRONG  "+tc.want) || !strings.Contains(out, "  ok     two") {
				t.Errorf("%v, want %q in:\n%s", err, tc.want, out)
			}
		})
	}
}

func TestMachinesThatAreNotThere(t *testing.T) {
	table, _ := readTable(t)
	c := Config{Table: table, Start: map[string]func(context.Context) (*Lab, error){}}
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "machine a3 of the table") {
		t.Error(err)
	}
	for _, m := range table.Machines {
		c.Start[m.Name] = func(context.Context) (*Lab, error) { return nil, errors.New("it does not boot") }
	}
	c.Only = []string{"a4"}
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), `--only "a4": want names of machines, of a3, tpu`) {
		t.Error(err)
	}
	var out strings.Builder
	c.Only, c.Out = []string{"tpu"}, &out
	if err := Run(t.Context(), c); err == nil || err.Error() != "machine tpu: it does not boot" {
		t.Error(err)
	}
}
