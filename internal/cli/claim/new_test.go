// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/nodeslices"
)

// fitting are the shipped machines that a manifest fits, by claim simulate.
func fitting(t *testing.T, manifest string, machines ...string) []string {
	t.Helper()
	var all []string
	for _, name := range machines {
		out, err := run(t, manifest, "simulate", "-f", "-", "--limit", "1", "--machine", name)
		switch {
		case err == nil:
			all = append(all, name)
		case !errors.Is(err, cmdutil.ErrReported):
			t.Fatal(err, out)
		}
	}
	return all
}

// The lines in which new says where a claim fits, and what would help.
var (
	fitsSome = regexp.MustCompile(`(?m)^fits \d of the 5 machines that plumbline ships: (.*); --machine`)
	helps    = regexp.MustCompile(`(?m)^  with (.*) it fits (.*)$`)
)

// What is written fits the machines that new says it fits, and no other; where it
// fits none, the flags that new tells make one that does.
func TestNewSaysWhereItFits(t *testing.T) {
	const a3, azure, p4d, egx, tpu = "a3-ultragpu-8g", "azure-nd96isr-h100-v5", "aws-p4d.24xlarge", "egx-t4-cx5", "gcp-ct6e-standard-4t"
	for args, want := range map[string]string{
		"--gpus 1 --nics 1 --cpus 4":                 a3 + " " + p4d,
		"--gpus 2 --nics 2 --cpus 8":                 a3 + " " + p4d,
		"--gpus 4 --nics 4 --cpus 32":                a3,
		"--gpus 8 --nics 8 --cpus 64":                a3,
		"--gpus 8 --nics 8":                          a3,
		"--gpus 8 --nics 4 --cpus 48":                a3 + " " + p4d,
		"--gpus 8":                                   a3 + " " + p4d + " " + azure,
		"--nics 8":                                   a3 + " " + azure,
		"--nics 1":                                   a3 + " " + p4d + " " + azure + " " + egx,
		"--nics 3 --any-nic --cpus 30":               a3 + " " + p4d + " " + azure + " " + egx + " " + tpu,
		"--cpus 160":                                 tpu,
		"--gpus 1 --nics 1 --cpus 4 --align numa":    a3 + " " + p4d + " " + azure + " " + egx,
		"--gpus 8 --nics 8 --cpus 64 --align numa":   a3 + " " + azure,
		"--gpus 8 --nics 8 --cpus 64 --align socket": a3 + " " + azure,
		"--gpus 1 --nics 1 --cpus 4 --fallback numa": a3 + " " + p4d + " " + azure + " " + egx,
		// As the user wants them, they fit nothing.
		"--gpus 8 --nics 8 --cpus 64 --numa-nodes 1":                 "",
		"--gpus 8 --nics 8 --cpus 64 --align numa --numa-nodes 1":    "",
		"--gpus 8 --nics 8 --cpus 64 --align socket --sockets 1":     "",
		"--gpus 8 --nics 8 --cpus 300 --template":                    "",
		"--gpus 4 --nics 4 --cpus 64 --gpu-product Tesla --mtu 1500": "",
	} {
		t.Run(args, func(t *testing.T) {
			manifest, said := told(t, "", strings.Fields(args)...)
			got := fitting(t, manifest, machine.Names()...)
			wanted := strings.Fields(want)
			slices.Sort(wanted)
			if !slices.Equal(got, wanted) {
				t.Errorf("fits %q, want %q", got, wanted)
			}
			if m := fitsSome.FindStringSubmatch(said); m != nil && !slices.Equal(strings.Split(m[1], ", "), got) || (m == nil) != (len(got) == 0) {
				t.Errorf("simulate says it fits %q, and new\n%s", got, said)
			}
			if len(got) > 0 {
				return
			}
			if !strings.Contains(said, "warning: fits none of the 5 machines") {
				t.Errorf("not told that it fits none:\n%s", said)
			}
			for _, m := range helps.FindAllStringSubmatch(said, -1) {
				manifest, _ := told(t, "", append(strings.Fields(args), strings.Fields(m[1])...)...)
				if names := strings.Split(m[2], ", "); !slices.Equal(fitting(t, manifest, names...), names) {
					t.Errorf("with %s it does not fit %s", m[1], m[2])
				}
			}
		})
	}
}

// newClaim is a command line of new with what it writes, says and returns.
func newClaim(t *testing.T, args string) (manifest, said string, err error) {
	t.Helper()
	return newClaimFrom(t, "", args)
}

func newClaimFrom(t *testing.T, stdin, args string) (manifest, said string, err error) {
	t.Helper()
	return clitest.Streams(t, rootCommand(), stdin, append([]string{"claim", "new"}, strings.Fields(args)...)...)
}

// Unasked, a claim is cut in the fewest parts; who asks for parts gets them.
func TestNewCutsInParts(t *testing.T) {
	for args, want := range map[string]int{
		"--gpus 4 --nics 4 --cpus 32":                                    1,
		"--gpus 4 --nics 4 --cpus 32 --numa-nodes 2":                     2,
		"--gpus 4 --nics 4 --cpus 32 --machine aws-p4d.24xlarge":         2,
		"--gpus 8 --nics 8 --cpus 64":                                    2,
		"--gpus 8 --nics 8 --cpus 64 --numa-nodes 1":                     1,
		"--gpus 8 --nics 8 --cpus 64 --align socket":                     2,
		"--gpus 8 --nics 8 --cpus 64 --numa-nodes 4":                     4,
		"--gpus 5 --nics 5 --cpus 5":                                     1, // in no parts does it fit
		"--gpus 8 --nics 8 --cpus 64 --machine egx-t4-cx5":               1,
		"--gpus 8 --nics 8 --cpus 64 --align numa --machine p5":          0,
		"--gpus 8 --nics 8 --cpus 64 --gpu-class gpu.amd.com --template": 1,
	} {
		manifest, said, err := newClaim(t, args)
		if want == 0 {
			if err == nil || manifest != "" || !strings.Contains(err.Error(), "p5") {
				t.Errorf("%s: %v\n%s", args, err, manifest)
			}
			continue
		}
		if n := strings.Count(manifest, "deviceClassName: dra.cpu"); err != nil || n != want {
			t.Errorf("%s: %v: %d parts, want %d", args, err, n, want)
		}
		asked := strings.Contains(args, "--numa-nodes")
		if cut := strings.Contains(said, fmt.Sprintf("in %d equal parts, each on one ", want)); cut != (want > 1 && !asked) {
			t.Errorf("%s: said %t that it is cut\n%s", args, cut, said)
		}
	}
}

// Of places that the user names, new says of each where it does not fit, why, and
// what would help: that claim fits.
func TestNewOnNamedMachines(t *testing.T) {
	for args, want := range map[string]string{
		"--gpus 1 --nics 1 --cpus 4 --machine a3-ultragpu-8g":                                              "",
		"--gpus 1 --nics 1 --cpus 4 --machine azure-nd96isr-h100-v5":                                       "--fallback numa",
		"--gpus 4 --nics 4 --cpus 8 --machine egx-t4-cx5":                                                  "--fallback any --numa-nodes 4",
		"--gpus 8 --nics 8 --cpus 32 --machine aws-p4d.24xlarge":                                           "--nics 4 --numa-nodes 2",
		"--nics 1 --machine gcp-ct6e-standard-4t":                                                          "--any-nic",
		"--cpus 120 --machine azure-nd96isr-h100-v5 --numa-nodes 2":                                        "--cpus 60",
		"--gpus 1 --nics 1 --machine azure-nd96isr-h100-v5 --machine ../../machine/testdata/facts/p5.yaml": "--fallback numa",
	} {
		t.Run(args, func(t *testing.T) {
			manifest, said := told(t, "", strings.Fields(args)...)
			if manifest == "" || strings.Contains(said, "machines that plumbline ships") {
				t.Errorf("%s\n%s", manifest, said)
			}
			if want == "" {
				if said != "fits a3-ultragpu-8g\n" {
					t.Error(said)
				}
				return
			}
			if !strings.Contains(said, "warning: does not fit ") || !strings.Contains(said, "  with "+want+" it fits ") {
				t.Fatalf("%swant %s", said, want)
			}
			_, said = told(t, "", append(strings.Fields(args), strings.Fields(want)...)...)
			if strings.Contains(said, "warning") || !strings.HasPrefix(said, "fits ") {
				t.Errorf("with %s: %s", want, said)
			}
		})
	}
}

// A class that no shipped machine has is not said to fit none of them.
func TestNewOfOtherClasses(t *testing.T) {
	for class, fallback := range map[string]string{"gpu.amd.com": "any", "gpu.intel.com": "any", "mig.nvidia.com": "numa", "gpus.example.com": "numa"} {
		manifest, said := told(t, "", "pair", "--gpus", "1", "--nics", "1", "--cpus", "4", "--gpu-class", class, "--fallback", fallback)
		if !strings.Contains(said, "no machine that plumbline ships has GPUs of class "+class) {
			t.Errorf("%s: %s", class, said)
		}
		if !strings.Contains(manifest, "deviceClassName: "+class+"\n") || strings.Contains(manifest, "gpu.nvidia.com") {
			t.Errorf("%s:\n%s", class, manifest)
		}
		out, err := run(t, manifest, "lint", "-f", "-")
		if err != nil || !strings.Contains(out, " 0 errors, ") {
			t.Errorf("%s: %v\n%s", class, err, out)
		}
	}
	manifest, said := told(t, "", "--gpus", "1", "--nics", "1", "--gpu-class", "gpu.amd.com", "--machine", "a3-ultragpu-8g")
	if !strings.Contains(said, "does not fit a3-ultragpu-8g: ") || !strings.Contains(said, "gpu.amd.com") {
		t.Errorf("%s\n%s", manifest, said)
	}
	requireGolden(t, "new-amd.yaml", written(t, "pair", "--gpus", "1", "--nics", "1", "--cpus", "4", "--gpu-class", "gpu.amd.com"))
}

// A claim for parts of GPUs is said not to be tried where no flag names a place, is one
// that lint has no error for, and says in words what the driver needs.
func TestNewOfPartsOfGPUs(t *testing.T) {
	for name, tc := range map[string]struct{ args, says string }{
		"mig":          {"parts --gpus 2 --mig-profile 3g.71gb --mig-same-gpu", "not tried: no machine that plumbline ships has GPUs of class mig.nvidia.com"},
		"mig-pairs":    {"pairs --gpus 2 --nics 2 --cpus 8 --mig-profile 3g.71gb --align pcie", "not tried: no machine that plumbline ships has GPUs of class mig.nvidia.com"},
		"shares":       {"share --gpus 2 --gpu-share shares=2", "not tried: no machine that plumbline ships shares its GPUs"},
		"memory":       {"share --gpus 1 --nics 1 --gpu-share memory=20Gi --template", "not tried: no machine that plumbline ships shares its GPUs"},
		"time-slicing": {"slices --gpus 1 --gpu-share time-slicing=Long", "fits 4 of the 5 machines that plumbline ships"},
	} {
		manifest, said := told(t, "", strings.Fields(tc.args)...)
		if !strings.Contains(said, tc.says) {
			t.Errorf("%s: %s", tc.args, said)
		}
		requireGolden(t, "new-"+name+".yaml", manifest)
		out, err := run(t, manifest, "lint", "-f", "-")
		if err != nil || !strings.Contains(out, " 0 errors, ") {
			t.Errorf("%s: %v\n%s", tc.args, err, out)
		}
		if strings.Contains(out, "may lack it") {
			t.Errorf("%s reads an attribute that a device may lack:\n%s", tc.args, out)
		}
	}
	for args, want := range map[string]string{
		"--gpus 1 --mig-profile 1g.10gb --gpu-class gpu.nvidia.com": "which has no MIG devices",
		"--gpus 1 --gpu-share half":                                 "want shares or such as shares=2",
	} {
		if _, _, err := newClaim(t, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	// The node of a file is tried: its GPUs are not shared.
	if _, said := told(t, oldNode, "--gpus", "1", "--gpu-share", "shares", "-f", "-"); !strings.Contains(said, "does not fit n1: ") {
		t.Error(said)
	}
}

// Claims for MIG devices are tried on what NVIDIA's driver published: of GPUs that were cut
// before, and of one that it cuts itself.
func TestNewOnMIGDevices(t *testing.T) {
	const cut, onDemand = "nvidia-mig-static", "nvidia-mig"
	for _, tc := range []struct{ node, args, want string }{
		{cut, "--gpus 1 --mig-profile 3g.71gb", "fits nvidia-mig-static\n"},
		{cut, "--gpus 2 --mig-profile 1g.18gb --mig-same-gpu", "fits nvidia-mig-static\n"},
		{cut, "--gpus 2 --mig-profile 3g.71gb", "does not fit nvidia-mig-static: "},
		{cut, "--gpus 1 --mig-profile 4g.71gb", "does not fit nvidia-mig-static: "},
		{cut, "--gpus 1", "fits nvidia-mig-static\n"},
		{cut, "--gpus 2", "does not fit nvidia-mig-static: "},
		{onDemand, "--gpus 2 --mig-profile 3g.71gb --mig-same-gpu", "fits nvidia-mig\n"},
	} {
		_, said := told(t, "", append(strings.Fields(tc.args), "-f", "../testdata/nvidia/"+tc.node+".yaml")...)
		if !strings.Contains(said, tc.want) {
			t.Errorf("%s: %swant %s", tc.args, said, tc.want)
		}
	}
}

// oldNode is a node as the drivers of GKE's tutorial publish it, on which a claim
// has the first GPU.
const oldNode = `
apiVersion: v1
kind: List
items:
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: n1-gpu}
  spec:
    driver: gpu.nvidia.com
    nodeName: n1
    pool: {name: n1, generation: 1, resourceSliceCount: 1}
    devices:
    - {name: gpu-0, attributes: {type: {string: gpu}, resource.kubernetes.io/pcieRoot: {string: "pci0000:8c"}, resource.kubernetes.io/pciBusID: {string: "0000:8f:00.0"}}}
    - {name: gpu-1, attributes: {type: {string: gpu}, resource.kubernetes.io/pcieRoot: {string: "pci0000:c1"}, resource.kubernetes.io/pciBusID: {string: "0000:c4:00.0"}}}
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: n1-nic}
  spec:
    driver: dra.net
    nodeName: n1
    pool: {name: n1, generation: 1, resourceSliceCount: 1}
    devices:
    - {name: pci-0000-91-00-0, attributes: {dra.net/rdma: {bool: true}, dra.net/numaNode: {int: 0}, resource.kubernetes.io/pcieRoot: {string: "pci0000:8c"}}}
    - {name: pci-0000-c6-00-0, attributes: {dra.net/rdma: {bool: true}, dra.net/numaNode: {int: 1}, resource.kubernetes.io/pcieRoot: {string: "pci0000:c1"}}}
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: n1-cpu}
  spec:
    driver: dra.cpu
    nodeName: n1
    pool: {name: n1, generation: 1, resourceSliceCount: 1}
    devices:
    - {name: cpudevnuma000, allowMultipleAllocations: true, attributes: {dra.net/numaNode: {int: 0}}, capacity: {dra.cpu/cpu: {value: "112"}}}
    - {name: cpudevnuma001, allowMultipleAllocations: true, attributes: {dra.net/numaNode: {int: 1}}, capacity: {dra.cpu/cpu: {value: "112"}}}
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: held, namespace: default}
  spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
  status:
    allocation:
      devices: {results: [{request: gpu, driver: gpu.nvidia.com, pool: n1, device: gpu-0}]}
`

// The nodes of a file are tried with what their claims hold, and a claim is not cut
// because of what is held at the moment.
func TestNewOnSlicesOfFiles(t *testing.T) {
	free, _, _ := strings.Cut(oldNode, "- apiVersion: resource.k8s.io/v1\n  kind: ResourceClaim\n")
	for _, tc := range []struct{ name, stdin, args, want string }{
		{"a pair", oldNode, "--gpus 1 --nics 1 --cpus 4", "fits n1\n"},
		{"both pairs", free, "--gpus 2 --nics 2 --cpus 8", "in 2 equal parts, each on one NUMA node, because it does not fit in fewer: --numa-nodes says how many\nfits n1\n"},
		{"both pairs, one held", oldNode, "--gpus 2 --nics 2 --cpus 8", "warning: does not fit n1: "},
		{"a NUMA node of GPUs", oldNode, "--gpus 1 --nics 1 --cpus 4 --align numa", "warning: does not fit n1: "},
		{"the class of another vendor", oldNode, "--gpus 1 --nics 1 --gpu-class gpu.amd.com", "warning: does not fit n1: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, said := told(t, tc.stdin, append(strings.Fields(tc.args), "-f", "-")...); !strings.Contains(said, tc.want) {
				t.Errorf("%swant %s", said, tc.want)
			}
		})
	}
	if _, _, err := newClaimFrom(t, "kind: List\napiVersion: v1\nitems: []\n", "--gpus 1 -f -"); err == nil || !strings.Contains(err.Error(), "-f - has no ResourceSlice: want such as") {
		t.Error(err)
	}
	if _, _, err := newClaimFrom(t, strings.Replace(free, "nodeName: n1", "nodeName: [n1]", 1), "--gpus 1 -f -"); err == nil || !strings.Contains(err.Error(), `ResourceSlice "n1-gpu"`) {
		t.Error(err)
	}
}

// server answers lists of a cluster of two nodes: an A3 Ultra all of whose NICs a
// claim holds, and a machine of Azure's. No kubeconfig but its own names it.
func server(t *testing.T) (kubeconfig string) {
	t.Helper()
	lists := map[string]any{}
	var all []resourceapi.ResourceSlice
	nodes := &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	held := resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "held"}}
	held.Status.Allocation = &resourceapi.AllocationResult{}
	// In the order of their names, as an API server lists them.
	for i, name := range []string{"a3-ultragpu-8g", "azure-nd96isr-h100-v5"} {
		node := fmt.Sprintf("n%d", i+1)
		file, err := machine.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		published, _, err := nodeslices.OfFile(t.Context(), file, nodeslices.Options{Node: node})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, published...)
		nodes.Items = append(nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	}
	for _, s := range all {
		for _, d := range s.Spec.Devices {
			if s.Spec.Driver == "dra.net" && s.Spec.Pool.Name == "n1" {
				held.Status.Allocation.Devices.Results = append(held.Status.Allocation.Devices.Results,
					resourceapi.DeviceRequestAllocationResult{Request: "nic", Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name})
			}
		}
	}
	list := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: kind + "List"}
	}
	classes := &resourceapi.DeviceClassList{TypeMeta: list("DeviceClass")}
	for _, driver := range []string{"gpu.nvidia.com", "dra.net", "dra.cpu"} {
		classes.Items = append(classes.Items, resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}},
		}})
	}
	lists["/api/v1/nodes"] = nodes
	lists["/apis/resource.k8s.io/v1/resourceslices"] = &resourceapi.ResourceSliceList{TypeMeta: list("ResourceSlice"), Items: all}
	lists["/apis/resource.k8s.io/v1/resourceclaims"] = &resourceapi.ResourceClaimList{TypeMeta: list("ResourceClaim"), Items: []resourceapi.ResourceClaim{held}}
	lists["/apis/resource.k8s.io/v1/deviceclasses"] = classes
	lists["/apis/resource.k8s.io/v1/devicetaintrules"] = &resourceapi.DeviceTaintRuleList{TypeMeta: list("DeviceTaintRule")}
	return serve(t, lists)
}

// serve answers lists by their paths, and returns a kubeconfig that names it.
func serve(t *testing.T, lists map[string]any) (kubeconfig string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := lists[r.URL.Path]
		if !found || r.Method != http.MethodGet {
			http.Error(w, r.Method+" "+r.URL.Path, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	kubeconfig = filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"clusters": [{"name": "c", "cluster": {"server": %q}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`, s.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// The nodes of a cluster are tried with what is free on them now; it is asked only by
// who says so.
func TestNewOnCluster(t *testing.T) {
	config := server(t)
	const n2 = "  with --fallback numa it fits n2\n"
	for args, want := range map[string][]string{
		"--gpus 8 --kubeconfig " + config:                                 {"fits 2 of 2: n1, n2\n"},
		"--gpus 8 --node n1 --kubeconfig " + config:                       {"fits n1\n"},
		"--gpus 1 --nics 1 --cpus 4 --live --kubeconfig " + config:        {"warning: does not fit n1: ", "8 match, 0 free", "warning: does not fit n2: ", n2},
		"--gpus 1 --nics 1 --fallback numa --live --kubeconfig " + config: {"fits 1 of 2: n2\n", "warning: does not fit n1: "},
		// What is held now cuts no claim.
		"--gpus 4 --nics 4 --cpus 32 --node n1 --kubeconfig " + config: {"warning: does not fit n1: "},
	} {
		manifest, said, err := newClaim(t, args)
		if err != nil || manifest == "" || strings.Contains(said, "equal parts") {
			t.Errorf("%s: %v\n%s", args, err, said)
		}
		for _, line := range want {
			if !strings.Contains(said, line) {
				t.Errorf("%s:\n%swant %s", args, said, line)
			}
		}
	}
	for args, want := range map[string]string{
		"--gpus 1 --live": "find the cluster: ",
		"--gpus 1 --node n3 --kubeconfig " + config:   `node "n3" is not in the cluster`,
		"--gpus 1 --kubeconfig " + config + "-absent": "find the cluster: ",
	} {
		manifest, _, err := newClaim(t, args)
		if err == nil || manifest != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\n%s", args, err, manifest)
		}
	}
}
