// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/cpuset"
)

func TestViolations(t *testing.T) {
	all, err := parseSamples("1.50 3\n2.00 3\n2.50 0\n9.00 3\n")
	if err != nil {
		t.Fatal(err)
	}
	held := []interval{{cpus: cpuset.New(2, 3), begin: 1.9, end: 8}}
	if diff := cmp.Diff([]cpuSample{{at: 2, cpu: 3}}, violations(all, held), cmp.AllowUnexported(cpuSample{})); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	if _, err := parseSamples("one 3\n"); err == nil {
		t.Error("nonsense was read as a sample")
	}
}

func TestParseAffinity(t *testing.T) {
	p, err := parseAffinity("12 0-1 0\n13 \n14 3 0-1\n")
	if err != nil || p.CPUs.String() != "0-1,3" || p.Mems.String() != "0-1" || strings.Join(p.PIDs, " ") != "12 14" {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, bad := range []string{"12 x 0\n", "12 0 y\n"} {
		if _, err := parseAffinity(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// The field that the sampler takes is the processor, whatever the command's name.
func TestSampledField(t *testing.T) {
	fields := make([]string, 0, 50)
	for i := range 50 {
		fields = append(fields, "f"+string(rune('a'+i%26)))
	}
	fields[36] = "7" // proc_pid_stat(5): field 39, the third is the first after the name
	out, err := exec.Command("sh", "-c", `stat=$1; set -- ${stat##*) }; echo "${37}"`, "sh", "12 (a) b) "+strings.Join(fields, " ")).Output()
	if err != nil || strings.TrimSpace(string(out)) != "7" {
		t.Errorf("got %q, %v", out, err)
	}
	for _, script := range []string{sample, readAffinity, findNodes, killProcess, endSample, uptime} {
		if out, err := exec.Command("sh", "-n", "-c", script).CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, script)
		}
	}
}
