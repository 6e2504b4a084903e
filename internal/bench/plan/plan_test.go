// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/tools/mfu"
	"plumbline.dev/plumbline/internal/golden"
)

func subnets(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestNewTCP(t *testing.T) {
	for name, o := range map[string]plan.Options{
		"eth0": {Against: plan.PodNetwork, Nodes: []string{"n1"}},
		"nics": {
			NIC: `device.attributes["dra.net"].ifName == "eth1"`, Against: `device.attributes["dra.net"].ifName == "eth2"`,
			Nodes: []string{"n1", "n2"}, CPUs: 2, Addresses: subnets("192.168.200.0/24", "fd00:200::/64"),
		},
	} {
		o.Run, o.Namespace, o.Image = "plumbline-bench-x", "default", "registry.example/bench"
		p, err := plan.NewTCP(o)
		if err != nil {
			t.Fatal(name, err)
		}
		assertObjects(t, name, p)
	}
}

func TestNewRDMA(t *testing.T) {
	for name, o := range map[string]plan.Options{
		"misaligned": {Variable: plan.NIC, Against: plan.Misaligned, CPUs: 4, Nodes: []string{"n1", "n2"}, Addresses: subnets("192.168.200.0/24", "192.168.201.0/24")},
		"rdma-nics":  {Variable: plan.NIC, NIC: "first", Against: "second"},
		"far-cpus":   {Variable: plan.CPUs, NIC: "first", CPUs: 2, GPUMemory: true},
	} {
		o.Run, o.Namespace, o.Image, o.Iterations, o.Bytes = "plumbline-bench-x", "default", "registry.example/bench", 1000, 2
		p, err := plan.NewRDMA(plan.RDMALatency, o)
		if err != nil {
			t.Fatal(name, err)
		}
		assertObjects(t, name, p)
	}
}

// Jobs' objects, and what their pods are told to run for the second arm.
func TestNewJobs(t *testing.T) {
	training := plan.TrainingOptions{Shape: mfu.Shape{Batch: 4096, Hidden: 8192, Layers: 12}, Precision: mfu.BF16, Steps: 20}
	for name, c := range map[string]struct {
		o    plan.Options
		made func(plan.Options) (*plan.Plan, error)
	}{
		"gpu-latency": {plan.Options{CPUs: 4, Nodes: []string{"n1"}}, plan.NewGPULatency},
		"training":    {plan.Options{Variable: plan.CPUs, CPUs: 4, GPUs: 1, RDMA: true, Command: []string{"python3", "/train.py"}, Training: training}, plan.NewTraining},
		"allreduce": {plan.Options{
			Variable: plan.NIC, Against: plan.Misaligned, CPUs: 4, GPUs: 2, GPU: "first", RDMA: true, Command: []string{"all_reduce_perf"}, Iterations: 20, Bytes: 1 << 27,
		}, plan.NewAllReduce},
		"allreduce-tcp": {plan.Options{Variable: plan.NIC, Against: plan.PodNetwork, Command: []string{"allreduce"}, Iterations: 20, Bytes: 1 << 20}, plan.NewAllReduce},
	} {
		c.o.Run, c.o.Namespace, c.o.Image = "plumbline-bench-x", "default", "registry.example/bench"
		p, err := c.made(c.o)
		if err != nil {
			t.Fatal(name, err)
		}
		assertObjects(t, name, p)
		end := func(address string) plan.End {
			return plan.End{Address: netip.MustParseAddr(address), Interface: p.B.Interface, RDMA: "mlx5_" + address[len(address)-1:], GID: 3, CPUs: p.B.CPUs}
		}
		ends := plan.Ends{Server: end("192.168.200.1"), Client: end("192.168.200.2")}
		said := "client: " + strings.Join(p.Tool.Measure(ends), " ") + "\n"
		if p.Tool.Serve != nil {
			said = "server: " + strings.Join(p.Tool.Serve(ends), " ") + "\n" + said
		}
		golden.Assert(t, "testdata/"+name+".commands", said)
	}
}

// Bounds of what nobody knows the most of are open above, and by packets where RDMA is used.
func TestLoadOfJobs(t *testing.T) {
	const table = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n" +
		"1024 256 float sum -1 10 0.10 0.10 0 10 0.10 0.10 0\n2048 512 float sum -1 10 0.10 0.10 0 10 0.10 0.10 0\n" +
		"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.1\n"
	for rdma, want := range map[bool]plan.Load{
		false: {Unit: plan.Bytes, Said: 2 * 3072 * 20, Fewest: 1, Most: math.Inf(1)},
		true:  {Unit: plan.Packets, Said: 30, Fewest: 1, Most: math.Inf(1)},
	} {
		p, err := plan.NewAllReduce(plan.Options{Image: "i", Variable: plan.NIC, Against: "true", RDMA: rdma, Command: []string{"a"}, Iterations: 20, Bytes: 2048})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Tool.Read(strings.NewReader(table)); err != nil || got.Load != want || got.Value != 0.1 {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		if got, err := p.Tool.Read(strings.NewReader(strings.Replace(table, "2048", "4096", 1))); err == nil || !strings.Contains(err.Error(), "2048 bytes") {
			t.Errorf("%+v, %v: a table without its last size is read", got, err)
		}
	}
}

func assertObjects(t *testing.T, name string, p *plan.Plan) {
	t.Helper()
	p.Own("keeper-uid")
	var text strings.Builder
	for _, object := range p.Objects() {
		one, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n" + string(one))
	}
	golden.Assert(t, "testdata/"+name+".yaml", text.String())
}

func TestNewRDMARefuses(t *testing.T) {
	good := plan.Options{Run: "r", Namespace: "n", Image: "i", Variable: plan.NIC, Against: plan.Misaligned, CPUs: 1, Iterations: 5, Bytes: 2}
	for want, change := range map[string]func(*plan.Options){
		"no image":                     func(o *plan.Options) { o.Image = "" },
		`against "", which has no`:     func(o *plan.Options) { o.Against = "" },
		`against "eth0", which has no`: func(o *plan.Options) { o.Against = plan.PodNetwork },
		"could be misaligned with":     func(o *plan.Options) { o.CPUs = 0 },
		"differ in CPUs: want one":     func(o *plan.Options) { o.Variable = plan.CPUs },
		"differ in these":              func(o *plan.Options) { o.Variable, o.Against, o.CPUs = plan.CPUs, "", 0 },
		`variable "GPU"`:               func(o *plan.Options) { o.Variable = plan.GPU },
		"4 iterations":                 func(o *plan.Options) { o.Iterations = 4 },
		"of 8388609 bytes":             func(o *plan.Options) { o.Bytes = 1<<23 + 1 },
		"want 2, one for each":         func(o *plan.Options) { o.Addresses = subnets("10.0.0.0/24") },
	} {
		o := good
		change(&o)
		if _, err := plan.NewRDMA(plan.RDMALatency, o); !errors.Is(err, plan.ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if _, err := plan.NewRDMA(plan.RDMALatency, good); err != nil {
		t.Error(err)
	}
}

// What went in so many packets is by the MTU, of which the last of a message may be short.
func TestReadBandwidth(t *testing.T) {
	p, err := plan.NewRDMA(plan.RDMABandwidth, plan.Options{Image: "i", Variable: plan.NIC, Against: "true", Iterations: 100, Bytes: 65537})
	if err != nil {
		t.Fatal(err)
	}
	const text = " Mtu             : 4096[B]\n #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n" +
		" 65537      100              0.41               0.38   \t\t   0.000729\n------\n"
	got, err := p.Tool.Read(strings.NewReader(text))
	if want := (plan.Load{Unit: plan.Packets, Said: 1700, Fewest: 0.9, Most: 2}); err != nil || got.Value != 0.38 || got.Load != want {
		t.Errorf("%+v, %v, want 0.38 by %+v", got, err, want)
	}
	if got, err := p.Tool.Read(strings.NewReader(strings.Replace(text, " 65537 ", " 65536 ", 1))); err == nil || !strings.Contains(err.Error(), "65537 bytes") {
		t.Errorf("%+v, %v: another size is read", got, err)
	}
}

func TestNewTCPRefuses(t *testing.T) {
	good := plan.Options{Run: "r", Namespace: "n", Image: "i", Against: plan.PodNetwork}
	for want, change := range map[string]func(*plan.Options){
		"no image":                    func(o *plan.Options) { o.Image = "" },
		"nothing to compare with":     func(o *plan.Options) { o.Against = "" },
		"3 nodes":                     func(o *plan.Options) { o.Nodes = []string{"a", "b", "c"} },
		"-1 CPUs":                     func(o *plan.Options) { o.CPUs = -1 },
		"2 subnets of addresses":      func(o *plan.Options) { o.Addresses = subnets("10.0.0.0/24", "10.0.1.0/24") },
		"1 subnets of addresses":      func(o *plan.Options) { o.Against = "true"; o.Addresses = subnets("10.0.0.0/24") },
		"10.0.0.1/24 is no subnet":    func(o *plan.Options) { o.Addresses = subnets("10.0.0.1/24") },
		"10.0.0.0/31 is no subnet":    func(o *plan.Options) { o.Addresses = subnets("10.0.0.0/31") },
		"10.0.0.0/16 and 10.0.1.0/24": func(o *plan.Options) { o.Against = "true"; o.Addresses = subnets("10.0.0.0/16", "10.0.1.0/24") },
	} {
		o := good
		change(&o)
		if _, err := plan.NewTCP(o); !errors.Is(err, plan.ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if _, err := plan.NewTCP(good); err != nil {
		t.Error(err)
	}
}

func device(driver, name string) plan.Device {
	return plan.Device{Role: "client", Driver: driver, Pool: "node", Device: name}
}

func TestCompare(t *testing.T) {
	gpu, nearNIC, farNIC := device("gpu.nvidia.com", "gpu-7"), device("dra.net", "pci-0000-91-00-0"), device("dra.net", "pci-0000-cd-00-0")
	cpus, otherCPUs := device("dra.cpu", "cpudevnuma000"), device("dra.cpu", "cpudevnuma001")
	for name, c := range map[string]struct {
		declared plan.Variable
		a, b     []plan.Device
		want     string
	}{
		"the NIC alone":          {plan.NIC, []plan.Device{nearNIC, cpus}, []plan.Device{farNIC, cpus}, ""},
		"against the pods' own":  {plan.NIC, []plan.Device{nearNIC, cpus}, []plan.Device{cpus}, ""},
		"in another order":       {plan.CPUs, []plan.Device{gpu, nearNIC, cpus}, []plan.Device{otherCPUs, nearNIC, gpu}, ""},
		"the GPU alone":          {plan.GPU, []plan.Device{gpu, nearNIC}, []plan.Device{nearNIC}, ""},
		"the same NIC":           {plan.NIC, []plan.Device{nearNIC}, []plan.Device{nearNIC}, "the same NIC (client node/pci-0000-91-00-0)"},
		"nothing":                {plan.NIC, nil, nil, "the same NIC (none)"},
		"no CPUs in one of them": {plan.NIC, []plan.Device{nearNIC, cpus}, []plan.Device{farNIC}, "differ in CPUs too: client node/cpudevnuma000 in one, none in the other"},
		// The published measurement of CPUs near and far ran over two NICs.
		"as published": {plan.CPUs, []plan.Device{nearNIC, cpus}, []plan.Device{farNIC, otherCPUs}, "declared is CPUs, and they differ in NIC too"},
	} {
		err := plan.Compare(c.declared, c.a, c.b)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, plan.ErrUndeclared) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Arms that have one NIC differ in their CPUs alone.
func TestDevicesOfCPUs(t *testing.T) {
	p, err := plan.NewRDMA(plan.RDMALatency, plan.Options{Image: "i", Variable: plan.CPUs, CPUs: 1, Iterations: 5, Bytes: 2})
	if err != nil {
		t.Fatal(err)
	}
	claim := &resourceapi.ResourceClaim{}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, r := range p.Server.Claim.Spec.Devices.Requests {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: r.Name, Driver: r.Exactly.DeviceClassName, Pool: "n1", Device: r.Name})
	}
	claims := map[string]*resourceapi.ResourceClaim{"server": claim, "client": claim}
	a, b := p.Devices(p.A, claims), p.Devices(p.B, claims)
	if err := plan.Compare(plan.CPUs, a, b); err != nil || len(a) != 4 || len(b) != 4 {
		t.Errorf("%v: %v and %v", err, a, b)
	}
}

// What is the other arm's alone is not this one's, and what is of neither is both's.
func TestDevices(t *testing.T) {
	p, err := plan.NewTCP(plan.Options{Run: "r", Namespace: "n", Image: "i", Against: "true", CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	allocated := func(nic, other string) *resourceapi.ResourceClaim {
		claim := &resourceapi.ResourceClaim{}
		claim.Status.Allocation = &resourceapi.AllocationResult{}
		claim.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{
			{Request: "nic", Driver: "dra.net", Pool: "n1", Device: nic}, {Request: "other", Driver: "dra.net", Pool: "n1", Device: other},
			{Request: "cpus", Driver: "dra.cpu", Pool: "n1", Device: "cpus"},
		}
		return claim
	}
	claims := map[string]*resourceapi.ResourceClaim{"server": allocated("a", "b"), "client": allocated("c", "d")}
	for arm, want := range map[plan.Arm]string{
		p.A: "server n1/a, server n1/cpus, client n1/c, client n1/cpus",
		p.B: "server n1/b, server n1/cpus, client n1/d, client n1/cpus",
	} {
		var got []string
		for _, d := range p.Devices(arm, claims) {
			got = append(got, d.String())
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("arm %s: %s, want %s", arm.Name, strings.Join(got, ", "), want)
		}
	}
}
