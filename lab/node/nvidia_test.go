// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/host/procfs"
	"plumbline.dev/plumbline/internal/machine"
)

// What /proc/driver shows of a GPU leads by its minor to the device file that the
// service makes.
func TestNVIDIAStandIn(t *testing.T) {
	facts, err := machine.OpenFacts("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	files, service, err := NVIDIAStandIn{NVML: "/n", CUDA: "/c", Ldconfig: "/l"}.On(facts, "node-a")
	if err != nil {
		t.Fatal(err)
	}
	script := service.Argv[2]
	for _, want := range []string{"/dev/nvidiactl c 195 255", "/dev/nvidia0 c 195 0", "/dev/nvidia7 c 195 7"} {
		if !strings.Contains(script, want) {
			t.Errorf("the script lacks %q:\n%s", want, script)
		}
	}
	minor, err := procfs.ParseGPUMinor(files[NVIDIADriverRoot+"/proc/driver/nvidia/gpus/0000:cc:00.0/information"].Content)
	if minor != 7 || err != nil {
		t.Errorf("0000:cc:00.0 has minor %d, %v; want 7", minor, err)
	}
	minors := procfs.ParseMIGMinors(files[NVIDIADriverRoot+"/proc/driver/nvidia-caps/mig-minors"].Content)
	if got := minors[3+(7*15+2)*9+1]; got.GPU != 7 || got.Instance != 2 || got.Compute == nil || *got.Compute != 0 {
		t.Errorf("the second GPU instance of the last GPU has for its compute instance %+v", got)
	}
	for path, source := range map[string]string{
		"/lib64/libnvidia-ml.so.1": "/n", "/lib64/libcuda.so.580.126.20": "/c",
	} {
		if got := files[NVIDIADriverRoot+path].Source; got != source {
			t.Errorf("%s comes from %q, want %q", path, got, source)
		}
	}
}

func TestNVIDIAStandInWantsGPUs(t *testing.T) {
	facts, err := machine.OpenFacts("gcp-ct6e-standard-4t")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := (NVIDIAStandIn{}).On(facts, "n"); err == nil || !strings.Contains(err.Error(), facts.Name) {
		t.Errorf("error %v, want one that names %s", err, facts.Name)
	}
}

// The stand-in knows what NVIDIA's DRA driver calls nvidia-smi with, and nothing else.
func TestNVIDIASMI(t *testing.T) {
	root := t.TempDir()
	program := filepath.Join(root, "bin", "nvidia-smi")
	for _, dir := range []string{filepath.Dir(program), filepath.Join(root, "etc", "nvml-standin")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(program, nvidiaSMI, 0o755); err != nil {
		t.Fatal(err)
	}
	const slice = "compute-policy -i GPU-1 --set-timeslice 1"
	for args, ok := range map[string]bool{
		"--version": true, slice: true, "-i GPU-1 -c DEFAULT": true,
		"": false, "-L": false, "compute-policy -i 0 --set-timeslice 1": false, "compute-policy -i GPU-1 --set-timeslice 9": false, "mig -cgi 9": false,
	} {
		out, err := exec.Command("sh", append([]string{program}, strings.Fields(args)...)...).CombinedOutput()
		if (err == nil) != ok {
			t.Errorf("nvidia-smi %s: %v, %s", args, err, out)
		}
	}
	settings, err := os.ReadFile(filepath.Join(root, "etc", "nvml-standin", "settings"))
	if got := strings.Split(strings.TrimSpace(string(settings)), "\n"); err != nil || len(got) != 2 {
		t.Errorf("it wrote down %q, %v; want the two settings", got, err)
	}
}
