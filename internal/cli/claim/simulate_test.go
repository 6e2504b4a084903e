// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// written is what claim new writes.
func written(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := told(t, "", args...)
	return out
}

// told is what claim new writes, and what it says beside it.
func told(t *testing.T, stdin string, args ...string) (manifest, said string) {
	t.Helper()
	manifest, said, err := clitest.Streams(t, rootCommand(), stdin, append([]string{"claim", "new"}, args...)...)
	if err != nil {
		t.Fatal(args, err)
	}
	return manifest, said
}

// What new writes has nothing that lint finds fault with, whatever is asked
// for.
func TestNewIsFaultless(t *testing.T) {
	for _, args := range []string{
		"pair --gpus 1 --nics 1 --cpus 4",
		"four --gpus 4 --nics 4 --cpus 16 --align pcie --fallback numa --template",
		"four --gpus 4 --nics 4 --cpus 16 --align numa --template -n training",
		"whole --gpus 8 --nics 8 --cpus 64 --numa-nodes 2 --interface-prefix rdma --mtu 8896",
		"far --gpus 2 --nics 2 --fallback any --interface-prefix rdma",
		"shares --gpus 8 --nics 4 --gpu-product H200",
		"nics --nics 3 --any-nic --align numa --cpus 30",
		"cpus --cpus 8",
	} {
		t.Run(args, func(t *testing.T) {
			out, err := run(t, written(t, strings.Fields(args)...), "lint", "-f", "-")
			if err != nil || !strings.HasSuffix(out, ": 0 errors, 0 warnings\n") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// Sockets are compared of devices that other drivers' lack: new says so beside the
// claim, and lint of any claim.
func TestSocketsOfOtherDrivers(t *testing.T) {
	for args, warnings := range map[string]int{
		"a --gpus 2 --nics 2 --cpus 8 --align socket":             1,
		"a --gpus 1 --nics 1 --cpus 8 --fallback numa,socket,any": 1,
		"a --nics 2 --cpus 8 --align socket":                      0,
		"a --gpus 1 --align socket":                               0,
	} {
		text := written(t, strings.Fields(args)...)
		if told := strings.Contains(text, "NVIDIA's own GPU driver and DRANET do not"); told != strings.Contains(text, "matchAttribute: dra.cpu/socketID") {
			t.Errorf("%s: what devices it is not for: said %t\n%s", args, told, text)
		}
		out, err := run(t, text, "lint", "-f", "-")
		if err != nil || strings.Count(out, "NVIDIA's own driver has no dra.cpu/socketID") != warnings {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}

// Of a claim for which the scheduler may search too long new says so.
func TestClaimsBeyondTheBudget(t *testing.T) {
	for args, want := range map[string]bool{
		"--gpus 3 --nics 3 --fallback numa":                         false,
		"--gpus 4 --nics 4 --fallback any":                          true,
		"--gpus 2 --nics 2 --fallback numa,socket":                  false,
		"--gpus 3 --nics 3 --fallback numa,socket":                  true,
		"--gpus 8 --nics 8":                                         false,
		"--gpus 8 --nics 8 --align numa --fallback any":             false,
		"--gpus 8 --nics 4 --fallback numa --template":              true,
		"--gpus 8 --nics 2 --fallback numa --interface-prefix rdma": false,
	} {
		if out := written(t, strings.Fields(args)...); strings.Contains(out, "longer than its 10 s") != want {
			t.Errorf("%s: want it said %t\n%s", args, want, out)
		}
	}
}

// A constraint on what one of its drivers never publishes fits nothing.
func TestLintOfAttributesThatDriversLack(t *testing.T) {
	const claim = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}
    - {name: nic, firstAvailable: [{name: near, deviceClassName: dra.net}, {name: far, deviceClassName: dranet}]}
    - {name: cpu, exactly: {deviceClassName: dra.cpu, capacity: {requests: {dra.cpu/cpu: 4}}}}
    constraints: [CONSTRAINT]
`
	for constraint, want := range map[string]string{
		"{matchAttribute: dra.cpu/cacheL3ID, requests: [nic/far, cpu]}":                "request nic/far: no device of dra.net has dra.cpu/cacheL3ID",
		"{matchAttribute: dra.net/rdma}":                                               "request gpu: no device of gpu.nvidia.com has dra.net/rdma",
		"{distinctAttribute: resource.kubernetes.io/pciBusID}":                         "request cpu: no device of dra.cpu has resource.kubernetes.io/pciBusID",
		"{matchAttribute: resource.kubernetes.io/pcieRoot}":                            "request cpu: CPUs have resource.kubernetes.io/pcieRoot only where",
		"{matchAttribute: dra.net/numaNode, requests: [gpu, nic]}":                     "request gpu: NVIDIA's own driver has no dra.net/numaNode",
		"{matchAttribute: resource.kubernetes.io/numaNode}":                            "0 errors, 0 warnings",
		"{matchAttribute: resource.kubernetes.io/pcieRoot, requests: [gpu, nic/near]}": "0 errors, 0 warnings",
		"{matchAttribute: gce.dra.net/block, requests: [nic]}":                         "0 errors, 0 warnings",
		"{matchAttribute: dra.cpu/socketID, requests: [nic, cpu]}":                     "0 errors, 0 warnings",
	} {
		out, err := run(t, strings.Replace(claim, "CONSTRAINT", constraint, 1), "lint", "-f", "-")
		if err != nil || !strings.Contains(out, want) || strings.Count(out, "\n") > 2 {
			t.Errorf("%s: %v\n%swant %s", constraint, err, out, want)
		}
	}
}

func TestNewGolden(t *testing.T) {
	requireGolden(t, "new-fallback.yaml", written(t, "training", "--gpus", "2", "--nics", "2", "--cpus", "8", "--fallback", "numa", "--template", "--mtu", "8896"))
	requireGolden(t, "new-whole.yaml", written(t, "whole", "--gpus", "8", "--nics", "8", "--cpus", "64", "--numa-nodes", "2"))
}

func TestNewRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"new":                     "the claim is for nothing",
		"new a b":                 `unexpected argument "b"`,
		"new Not_A_Name --gpus 1": `name "Not_A_Name"`,
		"new --gpus 8 --nics 32":  "split it into 2 claims of --gpus 4 --nics 16",
		"new --gpus 1 -o text":    `--output "text": want yaml or json`,
		"new --gpus 2 --align socket --numa-nodes 2": "want --sockets instead, or --align numa",
		"new --gpus 1 --nics 1 --fallback any,numa":  `fallback "numa" after any`,
		"new --gpus 65":                   "split it into 5 claims of --gpus 13",
		"new --gpus 67":                   "ask for less",
		"new --gpus 0":                    "the claim is for nothing",
		"new --gpus 1 -n a.b":             `--namespace "a.b"`,
		"new --gpus 1 --gpu-class A":      `--gpu-class "A": a lowercase RFC 1123 subdomain must consist of`,
		"new --gpus 1 --gpu-class=":       `--gpu-class "": a lowercase RFC 1123 subdomain must consist of`,
		"new --gpus 1 --machine a -f b":   "--machine a and -f b: want one of them",
		"new --gpus 1 --machine a --live": "--machine and -f ask no cluster",
		"new --gpus 1 -f a --context b":   "--machine and -f ask no cluster",
		"new --gpus 1 --node a -l b=c":    "--node a and -l b=c: want one of them",
		"new --gpus 1 --machine a=0":      "want NAME or NAME=COUNT",

		"new --nics 1 --mtu 1":             "interface.mtu",
		"simulate":                         "nothing to read",
		"simulate -f x --limit 0":          "--limit 0: want 1 or more",
		"simulate -f x --machine a -l b=c": "--machine is about hardware",
		"simulate -f x --node a -l b=c":    "--node and -l: want one of them",
	} {
		_, err := run(t, "", strings.Fields(args)...)
		if !errors.As(err, new(cmdutil.UsageError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	manifest := written(t, "--gpus", "1")
	for args, want := range map[string]string{
		"simulate -f - --machine a3-ultragpu-8g=none": "want NAME or NAME=COUNT",
		"simulate -f - --machine no-such-machine":     "no-such-machine",
	} {
		if _, err := run(t, manifest, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

func TestSimulateGolden(t *testing.T) {
	machines := []string{"--machine", "a3-ultragpu-8g=2", "--machine", "azure-nd96isr-h100-v5", "--machine", "aws-p4d.24xlarge", "--machine", "egx-t4-cx5"}
	four := written(t, "training", "--gpus", "4", "--nics", "4", "--cpus", "16", "--template")
	pair := written(t, "pair", "--gpus", "1", "--nics", "1", "--fallback", "numa")
	out, err := run(t, four+"---\n"+pair, append([]string{"simulate", "-f", "-"}, machines...)...)
	if err != nil {
		t.Fatal(err)
	}
	requireGolden(t, "simulate.txt", out)
	out, err = run(t, pair, append([]string{"simulate", "-f", "-", "-o", "json"}, machines...)...)
	if err != nil {
		t.Fatal(err)
	}
	requireGolden(t, "simulate.json", out)
}

// A pod is filled in with all its claims; what fits nowhere is told by the exit
// code.
func TestSimulatePods(t *testing.T) {
	pod := written(t, "training", "--gpus", "4", "--nics", "4", "--template") + "---\n" + written(t, "more", "--gpus", "4", "--nics", "4", "--template") + `---
apiVersion: v1
kind: Pod
metadata: {name: worker}
spec:
  resourceClaims:
    - {name: a, resourceClaimTemplateName: training}
    - {name: b, resourceClaimTemplateName: more}
  containers: [{name: c, image: i, resources: {claims: [{name: a}, {name: b}]}}]
`
	out, err := run(t, pod, "simulate", "-f", "-", "--machine", "a3-ultragpu-8g")
	if err != nil || strings.Count(out, "once") != 1 || !strings.HasPrefix(out, "Pod worker\n") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = run(t, pod, "simulate", "-f", "-", "--machine", "egx-t4-cx5")
	if !errors.Is(err, cmdutil.ErrReported) || !strings.Contains(out, "0 pods in all") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A rule in the files taints devices, in whatever version it is written.
func TestSimulateTaintRules(t *testing.T) {
	for _, version := range []string{"v1", "v1beta2"} {
		rule := "---\napiVersion: resource.k8s.io/" + version + `
kind: DeviceTaintRule
metadata: {name: drain}
spec:
  deviceSelector: {driver: gpu.nvidia.com}
  taint: {key: maintenance, effect: NoExecute}
`
		out, err := run(t, written(t, "--gpus", "1")+rule, "simulate", "-f", "-", "--machine", "a3-ultragpu-8g")
		if !errors.Is(err, cmdutil.ErrReported) || !strings.Contains(out, "tainted maintenance:NoExecute by DeviceTaintRule drain") {
			t.Errorf("%s: %v\n%s", version, err, out)
		}
	}
}

// A pod's extended resources are limits too: a device plugin's are counted, those of
// a class are claimed, and what is not served fits nowhere.
func TestSimulateExtendedResources(t *testing.T) {
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: rank}
spec:
  resourceClaims: [{name: nic, resourceClaimTemplateName: nic}]
  containers: [{name: main, image: none, resources: {claims: [{name: nic}], limits: {RESOURCE: AMOUNT}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: nic}
spec: {spec: {devices: {requests: [{name: nic, exactly: {deviceClassName: dra.net}}]}}}
`
	const class = `
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: any-gpu}
spec: {extendedResourceName: example.com/gpu, selectors: [{cel: {expression: device.driver == "gpu.nvidia.com"}}]}
`
	for name, c := range map[string]struct {
		machine, resource, amount, more string
		want                            []string
	}{
		"a device plugin":   {"gcp-ct6e-standard-4t", "google.com/tpu", "3", "", []string{"1 pod in all", "no more on gcp-ct6e-standard-4t: the node's device plugins have 1 of google.com/tpu, the pod asks for 3"}},
		"the shipped class": {"a3-ultragpu-8g", "nvidia.com/gpu", "3", "", []string{"2 pods in all", "2 GPUs, 6 NICs", "wants 3 devices of class gpu.nvidia.com"}},
		"another class":     {"a3-ultragpu-8g", "example.com/gpu", "3", class, []string{"2 pods in all", "2 GPUs, 6 NICs", "wants 3 devices of class any-gpu"}},
		"nobody":            {"a3-ultragpu-8g", "example.com/fpga", "1", "", []string{"0 pods in all", "not on a3-ultragpu-8g: example.com/fpga is not served"}},
		"the cpu's":         {"a3-ultragpu-8g", "cpu", "1", "", []string{"8 pods in all"}},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := strings.NewReplacer("RESOURCE", c.resource, "AMOUNT", c.amount).Replace(pod) + c.more
			out, err := run(t, manifest, "simulate", "-f", "-", "--machine", c.machine)
			if (err != nil) != (name == "nobody") {
				t.Error(err)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%swant %q", out, want)
				}
			}
		})
	}
}
