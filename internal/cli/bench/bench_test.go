// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/run"
	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// kept is a report of which one run was thrown out.
const kept = "../../bench/report/testdata/thrown-out.json"

func TestUsage(t *testing.T) {
	for line, want := range map[string]string{
		"tcp":                                                     "no image",
		"tcp --image i --pairs 4":                                 "--pairs 4: want 5 to 1000",
		"tcp --image i --repeats 0":                               "--repeats 0: want 1 to 1000",
		"tcp --image i --seconds 0":                               "--seconds 0",
		"tcp --image i --patience 0s":                             "--patience 0s",
		"tcp --image i -o xml":                                    `output format "xml"`,
		"tcp --image i --node a,b,c":                              "3 nodes",
		"tcp --image i --addresses 10.0.0.0":                      "want a subnet",
		"tcp --image i --addresses 10.0.0.1/24":                   "10.0.0.1/24 is no subnet",
		"tcp --image i --against true --cpus -1":                  "-1 CPUs",
		"rdma-latency --image i --variable gpu":                   `--variable "gpu"`,
		"rdma-latency --image i --against eth0":                   "has no RDMA",
		"rdma-latency --image i --cpus 0":                         "no CPUs",
		"rdma-bandwidth --image i --size 0":                       "iterations of 0 bytes",
		"rdma-bandwidth --image i --variable cpus --against true": "where the arms differ in CPUs",
		"rdma-bandwidth --image i --addresses 10.0.0.0/24":        "1 subnets of addresses: want 2",
		"training --image i":                                      "no command",
		"training --image i --steps 0 -- a":                       "0 steps",
		"training --image i --rdma --against eth0 -- a":           "has no RDMA",
		"training --image i --peak-tflops -1 -- a":                "a peak of -1",
		"allreduce --image i --variable cpus":                     "mpirun binds its ranks itself",
		"allreduce --image i --size 3000":                         "a power of two",
		"allreduce --image i --gpus -1":                           "-1 GPUs",
		"gpu-latency --image i --cpus 0":                          "0 CPUs on 0 nodes",
		"gpu-latency --image i --node a,b":                        "on 2 nodes",
		"tcp more":                                                `unexpected argument "more"`,
		"report":                                                  "0 files",
		"report a b c":                                            "3 files",
		"report a b -o json":                                      "are of one report",
		"nothing":                                                 `unknown command "nothing"`,
	} {
		_, err := clitest.Run(t, NewCommand(""), "", strings.Fields(line)...)
		if !errors.As(err, new(cmdutil.UsageError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("bench %s: %v, want a usage error with %q", line, err, want)
		}
	}
}

// A dry run needs no cluster, and prints all that would be made.
func TestDryRun(t *testing.T) {
	for _, kind := range kinds {
		args := []string{kind.name, "--image", "registry.example/bench", "--dry-run", "-n", "team-a"}
		pods := 2
		switch kind.name {
		case plan.Training:
			args = append(args, "--", "python3", "/train.py")
		case plan.GPULatency:
			pods = 1
		}
		out, err := clitest.Run(t, NewCommand(""), "", args...)
		if err != nil {
			t.Fatal(kind.name, err)
		}
		for want, times := range map[string]int{"kind: Job": 1, "kind: ResourceClaim\n": pods, "kind: Pod\n": pods, "namespace: team-a": 1 + 2*pods} {
			if got := strings.Count(out, want); got != times {
				t.Errorf("%s: %q is there %d times, want %d:\n%s", kind.name, want, got, times, out)
			}
		}
	}
}

// Every error that has a code of its own ends in that, and is said on one line.
func TestExitCodes(t *testing.T) {
	for _, exit := range exits {
		o := newOptions()
		o.runner = func(func(string)) (*run.Runner, error) { return nil, fmt.Errorf("measured: %w", exit.err) }
		said, err := clitest.Run(t, newTCP(o), "", "--image", "i")
		var coded cmdutil.ExitError
		if !errors.As(err, &coded) || coded.Code != exit.code || strings.Count(said, "\n") != 1 {
			t.Errorf("%v: %v, said %q, want exit code %d and a line", exit.err, err, said, exit.code)
		}
	}
	o := newOptions()
	o.runner = func(func(string)) (*run.Runner, error) {
		return nil, errors.Join(context.Canceled, fmt.Errorf("%w: pod x", run.ErrLeft))
	}
	var coded cmdutil.ExitError
	if said, err := clitest.Run(t, newTCP(o), "", "--image", "i"); !errors.As(err, &coded) || coded.Code != exitLeft || !strings.Contains(said, "pod x") {
		t.Errorf("%v, said %q: interrupted and not clean, want exit code %d", err, said, exitLeft)
	}
	plain := errors.New("no cluster")
	o.runner = func(func(string)) (*run.Runner, error) { return nil, plain }
	if _, err := clitest.Run(t, newTCP(o), "", "--image", "i"); !errors.Is(err, plain) {
		t.Errorf("%v, want %v", err, plain)
	}
}

func TestReport(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "picture.svg")
	text, err := clitest.Run(t, NewCommand(""), "", "report", kept, "--svg", picture)
	if err != nil {
		t.Fatal(err)
	}
	clitest.Documented(t, "bench.md", "output", "report", text)
	if drawn, err := os.ReadFile(picture); err != nil || !strings.HasPrefix(string(drawn), "<svg ") {
		t.Errorf("%.20s: %v", drawn, err)
	}
	encoded, err := clitest.Run(t, NewCommand(""), "", "report", kept, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	if want, err := os.ReadFile(kept); err != nil || encoded != string(want) {
		t.Errorf("%v: what was read is not what is written", err)
	}
	if both, err := clitest.Run(t, NewCommand(""), "", "report", kept, kept); err != nil || !strings.Contains(both, "no difference seen") {
		t.Errorf("%v: %s", err, both)
	}
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte(encoded[:100]), 0o600); err != nil {
		t.Fatal(err)
	}
	var coded cmdutil.ExitError
	if said, err := clitest.Run(t, NewCommand(""), "", "report", broken); !errors.As(err, &coded) || coded.Code != exitOutput {
		t.Errorf("%v: %s, want exit code %d", err, said, exitOutput)
	}
}

func TestDocumentedHelp(t *testing.T) {
	clitest.Documented(t, "bench.md", "output", "codes", codes()+"\n")
	list, err := clitest.Run(t, NewCommand(""), "", "list")
	if err != nil {
		t.Fatal(err)
	}
	clitest.Documented(t, "bench.md", "output", "list", list)
}

func TestVerified(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1"}}
	for answer, want := range map[string]string{
		`{"pods": [{"uid": "u1", "asClaimed": {"status": "True"}, "aligned": {"status": "False"}}]}`:                                                     "True False ",
		`{"pods": [{"uid": "u1", "asClaimed": {"status": "False", "reason": "LinkMissing", "message": "no bench0"}, "aligned": {"status": "Unknown"}}]}`: "False Unknown LinkMissing: no bench0",
		`{"pods": [{"uid": "u2", "asClaimed": {"status": "True"}}]}`:                                                                                     "Unknown Unknown the node's agent does not know the pod yet",
	} {
		v, err := verified([]byte(answer), pod)
		if got := v.AsClaimed + " " + v.Aligned + " " + v.Message; err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if _, err := verified([]byte("{"), pod); err == nil {
		t.Error("half an answer is read")
	}
}
