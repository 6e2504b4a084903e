// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claimgen_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/claimgen"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/nodeslices"
)

const node = "n1"

// cluster is one node with the hardware of a shipped machine.
func cluster(t *testing.T, name string) *allocation.Cluster {
	t.Helper()
	file, err := machine.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	published, problems, err := nodeslices.OfFile(context.Background(), file, nodeslices.Options{Node: node})
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	slices := make([]*resourceapi.ResourceSlice, len(published))
	for i := range published {
		slices[i] = &published[i]
	}
	classes := map[string]*resourceapi.DeviceClass{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(deploy.DeviceClasses()), 4096)
	for {
		var class resourceapi.DeviceClass
		if err := decoder.Decode(&class); err != nil {
			break
		}
		if class.Name != "" {
			classes[class.Name] = &class
		}
	}
	return allocation.New(allocation.DefaultGates(allocation.NewestMinor), classes, slices, nil)
}

func fill(t *testing.T, c *allocation.Cluster, o claimgen.Options) [][]*resourceapi.ResourceClaim {
	t.Helper()
	spec, err := claimgen.Spec(o)
	if err != nil {
		t.Fatal(err)
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Spec: *spec}
	pods, _, err := c.Fill(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, 100, claim)
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

// The scheduler's own allocator gives as many claims as the machine has room
// for, each aligned as it was asked for.
func TestAllocated(t *testing.T) {
	const a3, azure, p4d, egx, tpu = "a3-ultragpu-8g", "azure-nd96isr-h100-v5", "aws-p4d.24xlarge", "egx-t4-cx5", "gcp-ct6e-standard-4t"
	pair := claimgen.Options{GPUs: 1, NICs: 1, CPUs: 4, Align: claimgen.PCIe}
	four := claimgen.Options{GPUs: 4, NICs: 4, CPUs: 16, Align: claimgen.PCIe}
	with := func(o claimgen.Options, change func(*claimgen.Options)) claimgen.Options {
		change(&o)
		return o
	}
	onNUMA := func(o *claimgen.Options) { o.Align = claimgen.NUMA }
	orNUMA := func(o *claimgen.Options) { o.Fallback = []string{claimgen.NUMA} }
	orAny := func(o *claimgen.Options) { o.Fallback = []string{claimgen.Any} }
	for _, tc := range []struct {
		name, machine string
		o             claimgen.Options
		want          int
	}{
		{"pairs", a3, pair, 8},
		{"fours", a3, four, 2},
		{"fours of one NUMA node", a3, with(four, onNUMA), 2},
		{"the whole machine", a3, claimgen.Options{GPUs: 8, NICs: 8, CPUs: 32, NUMANodes: 2, Align: claimgen.PCIe}, 1},
		{"the whole machine on one NUMA node", a3, claimgen.Options{GPUs: 8, NICs: 8, CPUs: 32, Align: claimgen.PCIe}, 0},
		{"the whole machine without CPUs", a3, claimgen.Options{GPUs: 8, NICs: 8, Align: claimgen.PCIe}, 1},
		{"a product", a3, with(pair, func(o *claimgen.Options) { o.GPUProduct = "NVIDIA H200" }), 8},
		{"another product", a3, with(pair, func(o *claimgen.Options) { o.GPUProduct = "NVIDIA H100" }), 0},
		{"named interfaces", a3, with(four, func(o *claimgen.Options) { o.InterfacePrefix, o.MTU = "rdma", 8896 }), 2},
		{"no root is shared", azure, pair, 0},
		{"no root is shared, NUMA will do", azure, with(pair, orNUMA), 8},
		{"fours where NUMA will do", azure, with(four, orNUMA), 2},
		{"fours by NUMA", azure, with(four, onNUMA), 2},
		{"two GPUs a NIC", p4d, claimgen.Options{GPUs: 4, NICs: 2, Align: claimgen.PCIe}, 2},
		{"two GPUs a NIC, with CPUs", p4d, claimgen.Options{GPUs: 8, NICs: 4, CPUs: 48, NUMANodes: 2, Align: claimgen.PCIe}, 1},
		{"one GPU a NIC", p4d, claimgen.Options{GPUs: 1, NICs: 1, Align: claimgen.PCIe}, 4},
		{"NICs without RDMA", p4d, claimgen.Options{NICs: 1, WithoutRDMA: true, Align: claimgen.PCIe}, 7},
		{"one of four GPUs has a NIC on its NUMA node", egx, with(pair, orNUMA), 1},
		{"the others take theirs from afar", egx, with(pair, orAny), 4},
		{"a group, NICs from anywhere", egx, claimgen.Options{GPUs: 3, NICs: 3, Align: claimgen.NUMA, Fallback: []string{claimgen.Any}}, 1},
		{"NICs and CPUs", tpu, claimgen.Options{NICs: 3, CPUs: 30, Align: claimgen.NUMA, WithoutRDMA: true}, 1},
		{"CPUs", tpu, claimgen.Options{CPUs: 30, Align: claimgen.PCIe}, 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if pods := fill(t, cluster(t, tc.machine), tc.o); len(pods) != tc.want {
				t.Errorf("%d claims fit %s, want %d", len(pods), tc.machine, tc.want)
			}
		})
	}
}

// What is near is taken first: on a machine where each GPU has a NIC of its
// root, a claim with a fallback takes none from afar.
func TestNearFirst(t *testing.T) {
	for _, tc := range []struct {
		machine string
		o       claimgen.Options
		want    int
	}{
		{"a3-ultragpu-8g", claimgen.Options{GPUs: 2, NICs: 2, Align: claimgen.PCIe, Fallback: []string{claimgen.NUMA}}, 4},
		// Two GPUs share a NIC's root here: the second claim has to pass over one.
		{"aws-p4d.24xlarge", claimgen.Options{GPUs: 1, NICs: 1, Align: claimgen.PCIe, Fallback: []string{claimgen.NUMA}}, 4},
		{"aws-p4d.24xlarge", claimgen.Options{GPUs: 1, NICs: 1, Align: claimgen.PCIe, Fallback: []string{claimgen.Any}}, 4},
		{"aws-p4d.24xlarge", claimgen.Options{GPUs: 2, NICs: 1, Align: claimgen.PCIe, Fallback: []string{claimgen.NUMA}}, 4},
	} {
		pods := fill(t, cluster(t, tc.machine), tc.o)
		if len(pods) != tc.want {
			t.Errorf("%d claims %+v fit %s, want %d", len(pods), tc.o, tc.machine, tc.want)
		}
		for i, pod := range pods {
			for _, r := range pod[0].Status.Allocation.Devices.Results {
				if strings.HasSuffix(r.Request, "/far") {
					t.Errorf("claim %d on %s has %s for %s", i, tc.machine, r.Device, r.Request)
				}
			}
		}
	}
}

// Every combination of numbers is a claim that the API takes, or an error that
// says what would be right; a claim that is too big is split into ones that are
// not.
func TestLimits(t *testing.T) {
	for _, o := range []claimgen.Options{
		{Align: claimgen.PCIe}, {Align: claimgen.NUMA}, {Align: claimgen.Socket}, {Align: claimgen.NUMA, InterfacePrefix: "rdma", MTU: 9000, Environment: "nccl"},
		{Align: claimgen.PCIe, Fallback: []string{claimgen.NUMA, claimgen.Socket, claimgen.Any}, MTU: 9000},
		{Align: claimgen.NUMA, Fallback: []string{claimgen.Socket, claimgen.Any}, InterfacePrefix: "rdma"},
	} {
		for gpus := range 20 {
			for nics := 0; nics < 36; nics += 1 + len(o.Fallback) {
				for _, parts := range []int{1, 2, 4} {
					if o.GPUs, o.NICs, o.CPUs, o.NUMANodes = gpus, nics, 8, parts; o.Align == claimgen.Socket {
						o.NUMANodes, o.Sockets = 0, parts
					}
					spec, err := claimgen.Spec(o)
					var limit *claimgen.LimitError
					switch {
					case errors.As(err, &limit):
						if !strings.Contains(limit.Instruction, "split it into") && gpus%2+nics%2 == 0 && o.InterfacePrefix == "" {
							t.Errorf("%+v: %v", o, err)
						}
					case err != nil:
					default:
						for _, wrong := range refused(spec) {
							t.Errorf("%+v: %s", o, wrong)
						}
					}
				}
			}
		}
	}
}

// refused is what the API server would refuse of a spec: the rules of
// kubernetes/pkg/apis/resource/validation that a generator can break.
func refused(spec *resourceapi.ResourceClaimSpec) []string {
	var wrong []string
	atMost := func(what string, n, most int) {
		if n > most {
			wrong = append(wrong, fmt.Sprintf("%d %s, want %d at most", n, what, most))
		}
	}
	known, results := map[string]bool{}, 0
	name := func(n string) {
		if known[n] || len(validation.IsDNS1123Label(n[strings.LastIndexByte(n, '/')+1:])) > 0 {
			wrong = append(wrong, fmt.Sprintf("request name %q", n))
		}
		known[n] = true
	}
	for _, r := range spec.Devices.Requests {
		name(r.Name)
		for _, s := range r.FirstAvailable {
			name(r.Name + "/" + s.Name)
		}
		atMost("alternatives", len(r.FirstAvailable), resourceapi.FirstAvailableDeviceRequestMaxSize)
		if r.Exactly != nil {
			results += int(r.Exactly.Count)
		} else {
			results += int(r.FirstAvailable[0].Count)
		}
	}
	named := func(what string, list []string) {
		atMost("requests in one "+what, len(list), resourceapi.DeviceRequestsMaxSize)
		seen := map[string]bool{}
		for _, n := range list {
			if !known[n] || seen[n] {
				wrong = append(wrong, fmt.Sprintf("%s names %q, unknown or twice", what, n))
			}
			seen[n] = true
		}
	}
	for _, c := range spec.Devices.Constraints {
		named("constraint", c.Requests)
	}
	for _, c := range spec.Devices.Config {
		named("configuration", c.Requests)
	}
	atMost("results", results, resourceapi.AllocationResultsMaxSize)
	atMost("requests", len(spec.Devices.Requests), resourceapi.DeviceRequestsMaxSize)
	atMost("constraints", len(spec.Devices.Constraints), resourceapi.DeviceConstraintsMaxSize)
	atMost("configurations", len(spec.Devices.Config), resourceapi.DeviceConfigMaxSize)
	return wrong
}

func TestRefusals(t *testing.T) {
	pcie := claimgen.Options{GPUs: 1, NICs: 1, Align: claimgen.PCIe}
	with := func(change func(*claimgen.Options)) claimgen.Options {
		o := pcie
		change(&o)
		return o
	}
	for want, o := range map[string]claimgen.Options{
		"the claim is for nothing: want --gpus, --nics or --cpus, 1 or more":                                             {Align: claimgen.PCIe},
		`--align "root": want pcie, numa or socket`:                                                                      {GPUs: 1, Align: "root"},
		`--fallback "far" after pcie: want what is farther: numa, socket, any`:                                           with(func(o *claimgen.Options) { o.Fallback = []string{"far"} }),
		`--fallback "numa" after numa: want what is farther: socket, any`:                                                {GPUs: 1, NICs: 1, Align: claimgen.NUMA, Fallback: []string{claimgen.NUMA}},
		`--fallback "numa" after socket: want what is farther: any`:                                                      with(func(o *claimgen.Options) { o.Fallback = []string{claimgen.Socket, claimgen.NUMA} }),
		`--fallback "any" after any: want nothing after it`:                                                              with(func(o *claimgen.Options) { o.Fallback = []string{claimgen.Any, claimgen.Any} }),
		"--numa-nodes 2 with --align socket: want --sockets instead, or --align numa":                                    {GPUs: 2, NUMANodes: 2, Align: claimgen.Socket},
		"--sockets 2 with --align pcie: want --align socket, or --numa-nodes instead":                                    {GPUs: 2, Sockets: 2, Align: claimgen.PCIe},
		"--sockets 2 does not divide 3 GPUs, 2 NICs and 0 CPUs: want numbers that it does":                               {GPUs: 3, NICs: 2, Sockets: 2, Align: claimgen.Socket},
		"--numa-nodes 2 does not divide 3 GPUs, 2 NICs and 0 CPUs: want numbers that it does":                            {GPUs: 3, NICs: 2, NUMANodes: 2, Align: claimgen.NUMA},
		"--gpus 1073741824: beyond any machine's: want 65536 at most":                                                    {GPUs: 1 << 30, Align: claimgen.PCIe},
		"--cpus -1: want 0 or more":                                                                                      {GPUs: 1, CPUs: -1, Align: claimgen.PCIe},
		"the claim has 4096 results (devices), and the API takes 32: ask for less":                                       {GPUs: 4096, Align: claimgen.PCIe},
		`--gpu-product "NVIDIA H200" is for GPUs: want --gpus with it`:                                                   {NICs: 1, GPUProduct: "NVIDIA H200", Align: claimgen.PCIe},
		"--any-nic is for NICs: want --nics with it":                                                                     {GPUs: 1, WithoutRDMA: true, Align: claimgen.PCIe},
		`--mtu 1: interface.mtu: Invalid value: 1: want 68-65535`:                                                        {NICs: 1, MTU: 1, Align: claimgen.PCIe},
		`--environment "mpi": environment: Unsupported value: "mpi": supported values: "none", "nccl"`:                   {NICs: 1, Environment: "mpi", Align: claimgen.PCIe},
		"--vf vlan=100 is for NICs: want --nics with it":                                                                 {GPUs: 1, VF: map[string]string{"vlan": "100"}, Align: claimgen.PCIe},
		"--vf vlan=5000: interface.vf.vlan: Invalid value: 5000: want 0-4094":                                            {NICs: 1, VF: map[string]string{"vlan": "5000"}, Align: claimgen.PCIe},
		`--environment "nccl" is for NICs: want --nics with it`:                                                          {GPUs: 1, Environment: "nccl", Align: claimgen.PCIe},
		"--mtu 1500 is for NICs: want --nics with it":                                                                    {GPUs: 1, MTU: 1500, Align: claimgen.PCIe},
		`--interface-prefix "rdma" is for NICs: want --nics with it`:                                                     {GPUs: 1, InterfacePrefix: "rdma", Align: claimgen.PCIe},
		"--fallback any is for NICs away from their GPUs: want --gpus and --nics with it":                                {GPUs: 1, Align: claimgen.PCIe, Fallback: []string{claimgen.Any}},
		`--interface-prefix "longer-than-that": want 12 characters at most, an interface's name has 15`:                  {NICs: 1, InterfacePrefix: "longer-than-that", Align: claimgen.PCIe},
		"--gpus 3 and --nics 2 make no equal shares of PCIe roots: want one number to divide the other, or --align numa": {GPUs: 3, NICs: 2, Align: claimgen.PCIe},
		"the claim has 40 results (devices), and the API takes 32: split it into 2 claims of --gpus 4 --nics 16, and let the pod have all of them; devices are aligned within a claim, not between claims": {GPUs: 8, NICs: 32, Align: claimgen.PCIe},

		`--gpu-class "AMD": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`: with(func(o *claimgen.Options) { o.GPUClass = "AMD" }),
		`--gpu-class "gpu.amd.com" is for GPUs: want --gpus with it`:                                                                      {NICs: 1, GPUClass: "gpu.amd.com", Align: claimgen.PCIe},
		"--align numa compares resource.kubernetes.io/numaNode, which GPUs of class gpu.amd.com are not known to have: want --align pcie": with(func(o *claimgen.Options) { o.GPUClass, o.Align = "gpu.amd.com", claimgen.NUMA }),
		"--align socket compares dra.cpu/socketID, which GPUs of class fast are not known to have: want --align pcie or numa":             with(func(o *claimgen.Options) { o.GPUClass, o.Align = "fast", claimgen.Socket }),
		"--fallback numa compares resource.kubernetes.io/numaNode, which GPUs of class gpu.intel.com are not known to have: want --fallback any": with(func(o *claimgen.Options) {
			o.GPUClass, o.Fallback = "gpu.intel.com", []string{claimgen.NUMA}
		}),
		"--cpus 4 beside GPUs of class gpu.amd.com, which have no resource.kubernetes.io/numaNode: want --nics too, whose NUMA node the CPUs are then on, or the CPUs in a claim of their own": {
			GPUs: 1, CPUs: 4, GPUClass: "gpu.amd.com", Align: claimgen.PCIe},
		`--gpu-product "H200" names a product, and none is known of the GPUs of class fast: want one of gpu.amd.com, gpu.intel.com, gpu.nvidia.com, mig.nvidia.com, vfio.gpu.nvidia.com as --gpu-class, or a class that selects the product`: with(func(o *claimgen.Options) {
			o.GPUClass, o.GPUProduct = "fast", "H200"
		}),
	} {
		if _, err := claimgen.Spec(o); err == nil || err.Error() != want {
			t.Errorf("%+v:\n%v, want\n%s", o, err, want)
		}
	}
}

// Interfaces are named as the kernel takes it, by the driver's own rules.
func TestInterfaceNames(t *testing.T) {
	for prefix, good := range map[string]bool{"rdma": true, "a b": false, "a/": false, "é": false, ".": true} {
		_, err := claimgen.Spec(claimgen.Options{NICs: 2, InterfacePrefix: prefix, Align: claimgen.PCIe})
		if (err == nil) != good {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

// Requests that belong together stand together.
func TestInterleaved(t *testing.T) {
	spec, err := claimgen.Spec(claimgen.Options{GPUs: 4, NICs: 4, CPUs: 16, NUMANodes: 2, Align: claimgen.PCIe})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range spec.Devices.Requests {
		names = append(names, r.Name)
	}
	if got, want := fmt.Sprint(names), "[gpu-0 nic-0 gpu-1 nic-1 cpu-0 gpu-2 nic-2 gpu-3 nic-3 cpu-1]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Each part is on one NUMA node also where no CPUs are asked for.
func TestPartsWithoutCPUs(t *testing.T) {
	spec, err := claimgen.Spec(claimgen.Options{GPUs: 4, NICs: 4, NUMANodes: 2, Align: claimgen.PCIe})
	if err != nil {
		t.Fatal(err)
	}
	var together []string
	for _, c := range spec.Devices.Constraints {
		if *c.MatchAttribute == "dra.net/numaNode" {
			together = append(together, fmt.Sprint(c.Requests))
		}
	}
	if got, want := fmt.Sprint(together), "[[nic-0 nic-1] [nic-2 nic-3]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What containers are told is a parameter of the NICs, with or without others.
func TestEnvironment(t *testing.T) {
	for _, mtu := range []int{0, 9000} {
		spec, err := claimgen.Spec(claimgen.Options{GPUs: 1, NICs: 2, Environment: "nccl", MTU: mtu, Align: claimgen.NUMA})
		if err != nil {
			t.Fatal(err)
		}
		if len(spec.Devices.Config) != 1 {
			t.Fatalf("configurations %+v, want one for both NICs", spec.Devices.Config)
		}
		c, err := v1alpha1.DecodeNetworkConfig(spec.Devices.Config[0].Opaque.Parameters.Raw)
		if err != nil {
			t.Fatal(err)
		}
		if !c.NCCL() || (c.Interface.MTU != nil) != (mtu > 0) {
			t.Errorf("MTU %d: parameters %s", mtu, spec.Devices.Config[0].Opaque.Parameters.Raw)
		}
	}
}

// Who wants something of a physical function gets virtual ones, and the fields as the
// driver reads them.
func TestVirtualFunctions(t *testing.T) {
	const virtual = `"isSriovVf" in device.attributes["dra.net"] && device.attributes["dra.net"].isSriovVf`
	for _, anyNIC := range []bool{false, true} {
		spec, err := claimgen.Spec(claimgen.Options{NICs: 2, VF: map[string]string{"vlan": "100", "trust": "true"}, WithoutRDMA: anyNIC, Align: claimgen.NUMA})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range spec.Devices.Requests {
			if !slices.ContainsFunc(r.Exactly.Selectors, func(s resourceapi.DeviceSelector) bool { return s.CEL.Expression == virtual }) {
				t.Errorf("without RDMA %t: request %s takes NICs that are no virtual functions: %+v", anyNIC, r.Name, r.Exactly.Selectors)
			}
		}
		c, err := v1alpha1.DecodeNetworkConfig(spec.Devices.Config[0].Opaque.Parameters.Raw)
		if err != nil || c.Interface.VF == nil || *c.Interface.VF.VLAN != 100 || !*c.Interface.VF.Trust {
			t.Errorf("parameters %s, %v", spec.Devices.Config[0].Opaque.Parameters.Raw, err)
		}
	}
	for name, value := range map[string]string{"vlna": "100", "trust": "yes", "vlan": "true"} {
		if _, err := claimgen.Spec(claimgen.Options{NICs: 1, VF: map[string]string{name: value}, Align: claimgen.NUMA}); err == nil || !strings.Contains(err.Error(), "--vf "+name+"="+value+": ") {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}
