// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/allocation"
	"plumbline.dev/plumbline/internal/explain"
	. "plumbline.dev/plumbline/internal/explain/explaintest"
	"plumbline.dev/plumbline/internal/explain/fixes"
	"plumbline.dev/plumbline/internal/explain/reason"
	"plumbline.dev/plumbline/internal/explain/snapshot"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

const (
	pcieRoot = "resource.kubernetes.io/pcieRoot"
	netNUMA  = "dra.net/numaNode"
	a3       = "a3-ultragpu-8g-0"
)

func gpuID(i int) snapshot.DeviceID {
	return snapshot.DeviceID{Driver: "gpu.nvidia.com", Pool: a3, Device: fmt.Sprintf("gpu-%d", i)}
}

func nicID(i int) snapshot.DeviceID {
	return snapshot.DeviceID{Driver: "dra.net", Pool: a3, Device: A3NICs[i]}
}

func gpus(n int64, selectors ...string) resourceapi.DeviceRequest {
	return Request("gpu", "gpu.nvidia.com", n, selectors...)
}

func nics(n int64, selectors ...string) resourceapi.DeviceRequest {
	return Request("nic", "mrdma.google.com", n, selectors...)
}

func cpus(n string) resourceapi.DeviceRequest {
	r := Request("cpu", "dra.cpu", 1)
	if n != "" {
		r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"dra.cpu/cpu": resource.MustParse(n)}}
	}
	return r
}

func all(r resourceapi.DeviceRequest) resourceapi.DeviceRequest {
	r.Exactly.AllocationMode, r.Exactly.Count = resourceapi.DeviceAllocationModeAll, 0
	return r
}

// slicesOf are the slices of a driver.
func slicesOf(s *snapshot.Objects, driver string) []*resourceapi.ResourceSlice {
	return slices.DeleteFunc(slices.Clone(s.Slices), func(x *resourceapi.ResourceSlice) bool { return x.Spec.Driver != driver })
}

// devices goes over the devices of a driver.
func devices(s *snapshot.Objects, driver string, do func(i int, d *resourceapi.Device)) {
	for _, slice := range slicesOf(s, driver) {
		for i := range slice.Spec.Devices {
			do(i, &slice.Spec.Devices[i])
		}
	}
}

// cause is a claim that does not fit, and why.
type cause struct {
	name string
	// seed changes a machine that nobody uses.
	seed        func(*snapshot.Objects)
	requests    []resourceapi.DeviceRequest
	constraints []resourceapi.DeviceConstraint
	pod         *corev1.Pod
	// code is the cause, of the node or of a finding.
	code string
	// says is what the text says.
	says []string
	// fix is a kind of fix that is proposed, with what it says.
	fix, fixSays string
}

func causes() []cause {
	var all []cause
	all = append(all, causesOfHolders()...)
	all = append(all, causesOfNames()...)
	all = append(all, causesOfConstraints()...)
	all = append(all, causesOfPools()...)
	all = append(all, causesOfGates()...)
	all = append(all, causesOfDerived()...)
	all = append(all, causesOfShares()...)
	return append(all, causesOfPods()...)
}

func causesOfHolders() []cause {
	return []cause{
		{
			name: "NICs of the free GPUs' roots are held",
			seed: func(s *snapshot.Objects) {
				s.Claims = append(s.Claims, Holding("train-1", gpuID(4), gpuID(5), gpuID(6), gpuID(7), nicID(2), nicID(3)), Holding("train-3", nicID(0), nicID(1)))
			},
			requests: []resourceapi.DeviceRequest{gpus(1), nics(1)}, constraints: []resourceapi.DeviceConstraint{Match(pcieRoot, "gpu", "nic")},
			code: reason.Held, says: []string{
				"nic wants its resource.kubernetes.io/pcieRoot shared with gpu", "4 free: pci0000:8c (2), pci0000:93 (2)", "4 free: pci0000:c1 (2), pci0000:c8 (2)",
				"held by default/train-3 (2): pci0000:8c (2)", "smallest conflict: gpu, nic, constraint 0",
			},
			fix: fixes.Free, fixSays: "default/train-3 (pod train-3-0)",
		},
		{
			name: "all GPUs are held",
			seed: func(s *snapshot.Objects) {
				s.Claims = append(s.Claims, Holding("a", gpuID(0), gpuID(1), gpuID(2), gpuID(3)), Holding("b", gpuID(4), gpuID(5), gpuID(6), gpuID(7)))
			},
			requests: []resourceapi.DeviceRequest{gpus(1)}, code: reason.Held, says: []string{"8 match, 0 free", "held by default/a (4)"}, fix: fixes.Free,
		},
		{
			name: "CPUs are held",
			seed: func(s *snapshot.Objects) {
				for i := range 2 {
					h := Holding(fmt.Sprintf("cpus-%d", i), snapshot.DeviceID{Driver: "dra.cpu", Pool: a3, Device: fmt.Sprintf("cpudevnuma00%d", i)})
					r := &h.Status.Allocation.Devices.Results[0]
					r.ShareID = ptr.To(h.UID)
					r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"dra.cpu/cpu": resource.MustParse("100")}
					s.Claims = append(s.Claims, h)
				}
			},
			requests: []resourceapi.DeviceRequest{cpus("16")}, code: reason.Held,
			says: []string{"too little dra.cpu/cpu left beside what is held by default/cpus-0"}, fix: fixes.Free,
		},
		{
			name: "all CPUs of a node are asked for by saying nothing",
			seed: func(s *snapshot.Objects) {
				devices(s, "dra.cpu", func(_ int, d *resourceapi.Device) {
					for name, c := range d.Capacity {
						c.RequestPolicy = nil
						d.Capacity[name] = c
					}
				})
				for i := range 2 {
					h := Holding(fmt.Sprintf("cpus-%d", i), snapshot.DeviceID{Driver: "dra.cpu", Pool: a3, Device: fmt.Sprintf("cpudevnuma00%d", i)})
					r := &h.Status.Allocation.Devices.Results[0]
					r.ShareID = ptr.To(h.UID)
					r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"dra.cpu/cpu": resource.MustParse("4")}
					s.Claims = append(s.Claims, h)
				}
			},
			requests: []resourceapi.DeviceRequest{cpus("")}, code: reason.Held, fix: fixes.LessCapacity, fixSays: "takes all of a device while it does not say how much",
		},
		{
			// The taints of NVIDIA's driver (device_health.go in its cmd/gpu-kubelet-plugin).
			name: "an ill GPU, and others that are lost",
			seed: func(s *snapshot.Objects) {
				devices(s, "gpu.nvidia.com", func(i int, d *resourceapi.Device) {
					d.Taints = []resourceapi.DeviceTaint{{Key: "gpu.nvidia.com/gpu-lost", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
					if i == 0 {
						d.Taints = []resourceapi.DeviceTaint{{Key: "gpu.nvidia.com/xid", Value: "79", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
					}
				})
			},
			requests: []resourceapi.DeviceRequest{gpus(1)}, code: reason.Tainted,
			says: []string{"tainted gpu.nvidia.com/gpu-lost:NoSchedule (7)", "gpu.nvidia.com/xid=79:NoSchedule (1)"}, fix: fixes.Tolerate,
		},
		{
			name: "tainted by a check of the host",
			seed: func(s *snapshot.Objects) {
				devices(s, "dra.net", func(_ int, d *resourceapi.Device) {
					d.Taints = []resourceapi.DeviceTaint{{Key: "plumbline.dev/rdma-port-down", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
				})
			},
			requests: []resourceapi.DeviceRequest{nics(1)}, code: reason.Tainted,
			says: []string{"tainted plumbline.dev/rdma-port-down:NoSchedule (8)"}, fix: fixes.Tolerate,
		},
		{
			name: "tainted by a rule",
			seed: func(s *snapshot.Objects) {
				rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "drain-gpus"}}
				rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: ptr.To("gpu.nvidia.com"), Pool: ptr.To(a3)}
				rule.Spec.Taint = resourceapi.DeviceTaint{Key: "maintenance", Value: "now", Effect: resourceapi.DeviceTaintEffectNoExecute}
				s.TaintRules = append(s.TaintRules, rule)
			},
			requests: []resourceapi.DeviceRequest{gpus(1)}, code: reason.Tainted,
			says: []string{"tainted maintenance=now:NoExecute by DeviceTaintRule drain-gpus (8)"}, fix: fixes.Tolerate,
		},
		{
			name: "more than the node has", requests: []resourceapi.DeviceRequest{gpus(9)}, code: reason.TooFew,
			says: []string{"gpu wants 9 devices", "the node has 8 that match"}, fix: fixes.Fewer, fixSays: "ask for 8 in gpu",
		},
		{
			name: "requests want the same devices", requests: []resourceapi.DeviceRequest{gpus(5), Request("more", "gpu.nvidia.com", 4)}, code: reason.TooFew,
			says: []string{"gpu and more want the same devices", "more cannot be met"}, fix: fixes.Fewer,
		},
		{
			name: "no device is as large", requests: []resourceapi.DeviceRequest{cpus("112"), func() resourceapi.DeviceRequest { r := cpus("200"); r.Name = "big"; return r }()}, code: reason.Capacity,
			says: []string{"big wants 200 of dra.cpu/cpu, and dra.cpu/cpudevnuma000 gives out from 1 to 112"}, fix: fixes.LessCapacity, fixSays: "ask for 112",
		},
		{
			name: "partitions are taken",
			seed: func(s *snapshot.Objects) {
				s.Classes["mig"] = Class("mig", `device.driver == "mig.example.com"`)
				parts := Slice("mig.example.com", a3)
				for i := range 3 {
					d := Device(fmt.Sprintf("mig-%d", i), nil)
					d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu-0", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("40Gi")}}}}
					parts.Spec.Devices = append(parts.Spec.Devices, d)
				}
				counters := Slice("mig.example.com", a3)
				counters.Name += "-counters"
				counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "gpu-0", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("80Gi")}}}}
				parts.Spec.Pool.ResourceSliceCount, counters.Spec.Pool.ResourceSliceCount = 2, 2
				s.Slices = append(s.Slices, parts, counters)
				s.Claims = append(s.Claims, Holding("mig", snapshot.DeviceID{Driver: "mig.example.com", Pool: a3, Device: "mig-0"}))
			},
			requests: []resourceapi.DeviceRequest{Request("part", "mig", 2)}, code: reason.Held, fix: fixes.Fewer,
		},
	}
}

func causesOfNames() []cause {
	const net = `device.attributes["dra.net"]`
	return []cause{
		{
			name: "class misspelt", requests: []resourceapi.DeviceRequest{Request("gpu", "gpu.nvidia.con", 1)}, code: reason.ClassAbsent,
			says: []string{`device class "gpu.nvidia.con" does not exist: did it mean gpu.nvidia.com?`}, fix: fixes.CorrectName,
		},
		{
			name: "class unknown", requests: []resourceapi.DeviceRequest{Request("gpu", "tpu", 1)}, code: reason.ClassAbsent,
			says: []string{`device class "tpu" does not exist`},
		},
		{
			name: "driver absent", seed: func(s *snapshot.Objects) { s.Classes["fpga"] = Class("fpga", `device.driver == "fpga.example.com"`) },
			requests: []resourceapi.DeviceRequest{Request("fpga", "fpga", 1)}, code: reason.DriverAbsent, says: []string{"is it installed?"},
		},
		{
			name: "driver misspelt in the class", seed: func(s *snapshot.Objects) { s.Classes["gpu"] = Class("gpu", `device.driver == "gpus.nvidia.com"`) },
			requests: []resourceapi.DeviceRequest{Request("gpu", "gpu", 1)}, code: reason.DriverAbsent, says: []string{"did the class mean gpu.nvidia.com?"},
		},
		{
			name: "driver on another node only",
			seed: func(s *snapshot.Objects) {
				s.Slices = slices.DeleteFunc(s.Slices, func(x *resourceapi.ResourceSlice) bool { return x.Spec.Driver == "gpu.nvidia.com" })
				s.Slices = append(s.Slices, Slice("gpu.nvidia.com", "other"))
			},
			requests: []resourceapi.DeviceRequest{gpus(1)}, code: reason.DriverAbsent, says: []string{"publishes nothing for the node, as it does for others"},
		},
		{
			name: "selector reads a misspelt attribute", requests: []resourceapi.DeviceRequest{nics(1, `"rmda" in `+net+` && `+net+`.rmda`)},
			code: reason.AttributeUnknown, says: []string{"no device of the cluster has dra.net/rmda: did it mean dra.net/rdma?"}, fix: fixes.CorrectName,
		},
		{
			name: "selector wants a value that is not there", requests: []resourceapi.DeviceRequest{nics(1, `"numaNode" in `+net+` && `+net+`.numaNode == 7`)},
			code: reason.SelectorMatchesNothing, says: []string{"their dra.net/numaNode is 0 (4), 1 (4)"},
		},
		{
			name: "the host's software does not let NICs reach GPUs",
			seed: func(s *snapshot.Objects) {
				devices(s, "dra.net", func(_ int, d *resourceapi.Device) {
					d.Attributes["plumbline.dev/gpuDirect"] = resourceapi.DeviceAttribute{BoolValue: ptr.To(false)}
				})
			},
			requests: []resourceapi.DeviceRequest{nics(1, `"gpuDirect" in device.attributes["plumbline.dev"] && device.attributes["plumbline.dev"].gpuDirect`)},
			code:     reason.SelectorMatchesNothing, says: []string{"their plumbline.dev/gpuDirect is false (8)"},
		},
		{
			name: "selector leaves too few", requests: []resourceapi.DeviceRequest{nics(5, `"numaNode" in `+net+` && `+net+`.numaNode == 0`)},
			code: reason.TooFew, says: []string{"takes out 4 devices and leaves 4"}, fix: fixes.Fewer,
		},
		{
			name: "selector reads what a device lacks",
			seed: func(s *snapshot.Objects) {
				devices(s, "dra.net", func(i int, d *resourceapi.Device) {
					if i == 0 {
						delete(d.Attributes, netNUMA)
					}
				})
			},
			requests: []resourceapi.DeviceRequest{nics(1, net+`.numaNode == 1`)}, code: reason.SelectorAborts,
			says: []string{"selector 0 of nic cannot be evaluated for dra.net/pci-0000-91-00-0", "no such key: numaNode"}, fix: fixes.GuardSelector,
			fixSays: `"numaNode" in device.attributes["dra.net"]`,
		},
		{
			name: "class reads what a device lacks",
			seed: func(s *snapshot.Objects) {
				s.Classes["fast"] = Class("fast", `device.driver == "dra.net" && `+net+`.numaNode == 1`)
				devices(s, "dra.net", func(i int, d *resourceapi.Device) {
					if i == 0 {
						delete(d.Attributes, netNUMA)
					}
				})
			},
			requests: []resourceapi.DeviceRequest{Request("nic", "fast", 1)}, code: reason.SelectorAborts,
			says: []string{"selector 0 of device class fast, which nic wants,"}, fix: fixes.GuardSelector, fixSays: "of device class fast: ",
		},
		{
			name: "constraint compares a misspelt attribute", requests: []resourceapi.DeviceRequest{gpus(1), nics(1)},
			constraints: []resourceapi.DeviceConstraint{Match("resource.kubernetes.io/pcieroot", "gpu", "nic")}, code: reason.AttributeUnknown,
			says: []string{"did it mean resource.kubernetes.io/pcieRoot?"}, fix: fixes.CorrectName,
		},
		{
			name: "constraint names the wrong domain", requests: []resourceapi.DeviceRequest{gpus(1), nics(1)},
			constraints: []resourceapi.DeviceConstraint{Match("dra.net/pcieRoot", "gpu", "nic")}, code: reason.AttributeUnknown,
			says: []string{"did it mean resource.kubernetes.io/pcieRoot?"}, fix: fixes.CorrectName,
		},
		{
			name: "constraint names no request", requests: []resourceapi.DeviceRequest{gpus(9), nics(1)},
			constraints: []resourceapi.DeviceConstraint{Match(pcieRoot, "gpus", "nic")}, code: explain.RequestAbsent,
			says: []string{`spec.devices.constraints[0].requests[0]: the claim has no request "gpus": did it mean gpu?`},
		},
		{
			name: "a request of a kind that is not known", requests: []resourceapi.DeviceRequest{{Name: "new"}}, code: reason.Malformed,
			says: []string{"neither exactly nor firstAvailable"},
		},
	}
}

func causesOfConstraints() []cause {
	return []cause{
		{
			name: "attribute absent on one side",
			seed: func(s *snapshot.Objects) {
				devices(s, "dra.net", func(_ int, d *resourceapi.Device) { delete(d.Attributes, pcieRoot) })
			},
			requests: []resourceapi.DeviceRequest{gpus(1), nics(1)}, constraints: []resourceapi.DeviceConstraint{Match(pcieRoot, "gpu", "nic")},
			code: reason.AttributeAbsent, says: []string{"no device for nic has this attribute"}, fix: fixes.Relax, fixSays: "compare resource.kubernetes.io/numaNode",
		},
		{
			name: "sockets of GPUs that NVIDIA's driver publishes",
			seed: func(s *snapshot.Objects) {
				devices(s, "gpu.nvidia.com", func(_ int, d *resourceapi.Device) { delete(d.Attributes, slicecodec.AttrSocket) })
			},
			requests: []resourceapi.DeviceRequest{gpus(1), nics(1)}, constraints: []resourceapi.DeviceConstraint{Match(slicecodec.AttrSocket, "gpu", "nic")},
			code: reason.AttributeAbsent, says: []string{"no device for gpu has this attribute", "without socketID (8)"},
			fix: fixes.Relax, fixSays: "compare resource.kubernetes.io/numaNode instead of dra.cpu/socketID",
		},
		{
			name: "more GPUs than a NUMA node has",
			seed: func(s *snapshot.Objects) {
				devices(s, "gpu.nvidia.com", func(i int, d *resourceapi.Device) { d.Attributes[slicecodec.AttrNUMANode] = Number(int64(i / 2)) })
			},
			requests: []resourceapi.DeviceRequest{gpus(4)}, constraints: []resourceapi.DeviceConstraint{Match(slicecodec.AttrNUMANode, "gpu")},
			code: reason.CountAgainstConstraint, says: []string{"none enough", "numaNode 0 (2)"},
			fix: fixes.Relax, fixSays: "compare dra.cpu/socketID instead of resource.kubernetes.io/numaNode",
		},
		{
			name: "no root has both",
			seed: func(s *snapshot.Objects) {
				devices(s, "dra.net", func(i int, d *resourceapi.Device) { d.Attributes[pcieRoot] = Text(fmt.Sprintf("pci0000:e%d", i)) })
			},
			requests: []resourceapi.DeviceRequest{gpus(1), nics(1)}, constraints: []resourceapi.DeviceConstraint{Match(pcieRoot, "gpu", "nic")},
			code: reason.NoCommonValue, says: []string{"no value has a free device for each"}, fix: fixes.Relax,
		},
		{
			name: "values of two types",
			seed: func(s *snapshot.Objects) {
				devices(s, "gpu.nvidia.com", func(_ int, d *resourceapi.Device) { d.Attributes[netNUMA] = Text("0") })
			},
			requests: []resourceapi.DeviceRequest{gpus(1), nics(1)}, constraints: []resourceapi.DeviceConstraint{Match(netNUMA, "gpu", "nic")},
			code: reason.AttributeTypes, says: []string{"values of two types are never equal"}, fix: fixes.Relax,
		},
		{
			name: "lists compared",
			seed: func(s *snapshot.Objects) {
				for _, driver := range []string{"gpu.nvidia.com", "dra.net"} {
					devices(s, driver, func(i int, d *resourceapi.Device) { d.Attributes["example.com/near"] = Texts("a", fmt.Sprint(i)) })
				}
			},
			requests: []resourceapi.DeviceRequest{gpus(1), nics(1)}, constraints: []resourceapi.DeviceConstraint{Match("example.com/near", "gpu", "nic")},
			code: reason.ListAttribute, says: []string{"feature gate DRAListTypeAttributes"}, fix: fixes.EnableGate,
		},
		{
			name: "count against a constraint", requests: []resourceapi.DeviceRequest{gpus(3), nics(1)},
			constraints: []resourceapi.DeviceConstraint{Match(pcieRoot, "gpu", "nic")}, code: reason.CountAgainstConstraint,
			says: []string{"each value has free devices, but none enough", "pci0000:8c (2)"}, fix: fixes.Fewer, fixSays: "ask for 2 in gpu",
		},
		{
			name: "pairs against an attribute that only pairs share", requests: []resourceapi.DeviceRequest{gpus(2), nics(2)},
			constraints: []resourceapi.DeviceConstraint{Match("resource.kubernetes.io/pciBusID", "gpu")}, code: reason.CountAgainstConstraint,
			says: []string{"constraint 0 wants one resource.kubernetes.io/pciBusID for all devices of gpu"}, fix: fixes.Fewer,
		},
		{
			name: "more devices than distinct values", requests: []resourceapi.DeviceRequest{nics(3)},
			constraints: []resourceapi.DeviceConstraint{Distinct(netNUMA, "nic")}, code: reason.TooFewValues,
			says: []string{"3 devices, and 2 values"}, fix: fixes.Fewer, fixSays: "ask for 2 in nic",
		},
		{
			name: "all devices against a constraint", requests: []resourceapi.DeviceRequest{all(gpus(1))},
			constraints: []resourceapi.DeviceConstraint{Match(pcieRoot, "gpu")}, code: reason.AllAgainstConstraint,
			says: []string{"gpu asks for all devices, and a constraint does not take gpu.nvidia.com/gpu-2"}, fix: fixes.Fewer,
		},
		{
			name: "more results than a claim can have", requests: forty(), constraints: nil, code: reason.TooManyResults,
			seed: func(s *snapshot.Objects) {
				s.Classes["vf"] = Class("vf", `device.driver == "vf.example.com"`)
				vfs := Slice("vf.example.com", a3)
				for i := range 64 {
					vfs.Spec.Devices = append(vfs.Spec.Devices, Device(fmt.Sprintf("vf-%d", i), nil))
				}
				s.Slices = append(s.Slices, vfs)
			},
			says: []string{"r4 is one too many: with it claim claim wants at least 40 devices, and a claim can have 32"}, fix: fixes.Split, fixSays: "claim-1 (r0, r1, r2, r3), claim-2 (r4)",
		},
	}
}

func forty() []resourceapi.DeviceRequest {
	var r []resourceapi.DeviceRequest
	for i := range 5 {
		r = append(r, Request(fmt.Sprintf("r%d", i), "vf", 8))
	}
	return r
}

func causesOfPools() []cause {
	return []cause{
		{
			name: "pool incomplete", seed: func(s *snapshot.Objects) { slicesOf(s, "gpu.nvidia.com")[0].Spec.Pool.ResourceSliceCount = 2 },
			requests: []resourceapi.DeviceRequest{gpus(1)}, code: reason.PoolIncomplete, says: []string{"1 of 2 slices of generation 1 are published"},
		},
		{
			name: "two publishers of a pool", seed: func(s *snapshot.Objects) {
				slice := slicesOf(s, "gpu.nvidia.com")[0]
				slice.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "plumbline-agent"}}
				other := slice.DeepCopy()
				other.Name += "-other"
				other.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "gpu-kubelet-plugin"}}
				s.Slices = append(s.Slices, other)
			},
			requests: []resourceapi.DeviceRequest{gpus(1)}, code: reason.PoolIncomplete,
			says: []string{"2 of 1 slices of generation 1 are published; its slices were written by gpu-kubelet-plugin and plumbline-agent, and a pool has one publisher"},
		},
		{
			name: "all devices, and another driver's pool incomplete", seed: func(s *snapshot.Objects) { slicesOf(s, "dra.cpu")[0].Spec.Pool.ResourceSliceCount = 2 },
			requests: []resourceapi.DeviceRequest{all(gpus(1))}, code: reason.PoolIncomplete, says: []string{"pool dra.cpu/" + a3 + " is incomplete"}, fix: fixes.Fewer,
		},
		{
			name: "two devices of one name",
			seed: func(s *snapshot.Objects) {
				slice := slicesOf(s, "gpu.nvidia.com")[0]
				slice.Spec.Devices = append(slice.Spec.Devices, slice.Spec.Devices[0])
			},
			requests: []resourceapi.DeviceRequest{gpus(1)}, code: reason.PoolInvalid, says: []string{`two devices are called "gpu-0"`},
		},
		{
			name: "slices of contradicting generations",
			seed: func(s *snapshot.Objects) {
				slice := slicesOf(s, "gpu.nvidia.com")[0]
				half := slice.DeepCopy()
				half.Name += "-new"
				half.Spec.Devices = half.Spec.Devices[:4]
				half.Spec.Pool.Generation, half.Spec.Pool.ResourceSliceCount = 2, 2
				s.Slices = append(s.Slices, half)
			},
			requests: []resourceapi.DeviceRequest{gpus(1)}, code: reason.PoolIncomplete, says: []string{"1 of 2 slices of generation 2"},
		},
		{
			name: "a newer generation is for another node",
			seed: func(s *snapshot.Objects) {
				slice := slicesOf(s, "gpu.nvidia.com")[0]
				slice.Spec.Pool.ResourceSliceCount = 2
				other := slice.DeepCopy()
				other.Name += "-new"
				other.Spec.Pool.Generation, other.Spec.Pool.ResourceSliceCount = 2, 1
				other.Spec.NodeName = ptr.To("other")
				s.Slices = append(s.Slices, other)
			},
			requests: []resourceapi.DeviceRequest{gpus(1)}, code: reason.DriverAbsent, says: []string{"publishes nothing for the node"},
		},
	}
}

func causesOfGates() []cause {
	gate := func(off func(*allocation.Gates)) func(*snapshot.Objects) {
		return func(s *snapshot.Objects) { off(&s.Gates) }
	}
	return []cause{
		{
			name: "subrequests", seed: gate(func(g *allocation.Gates) { g.PrioritizedList = false }),
			requests: []resourceapi.DeviceRequest{{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "near", DeviceClassName: "gpu.nvidia.com"}}}},
			code:     reason.GateOff, says: []string{"gpu/near is refused", "DRAPrioritizedList is off"}, fix: fixes.EnableGate,
		},
		{
			name: "capacity requests", seed: gate(func(g *allocation.Gates) { g.ConsumableCapacity = false }), requests: []resourceapi.DeviceRequest{cpus("4")},
			code: reason.GateOff, says: []string{"DRAConsumableCapacity is off"}, fix: fixes.EnableGate,
		},
		{
			name: "distinctAttribute", seed: gate(func(g *allocation.Gates) { *g = allocation.DefaultGates(35) }), requests: []resourceapi.DeviceRequest{nics(1)},
			constraints: []resourceapi.DeviceConstraint{Distinct(netNUMA, "nic")}, code: reason.GateOff, says: []string{"distinctAttribute"}, fix: fixes.EnableGate, fixSays: "DRAConsumableCapacity",
		},
		{
			name: "admin access", seed: gate(func(g *allocation.Gates) { g.AdminAccess = false }),
			requests: []resourceapi.DeviceRequest{func() resourceapi.DeviceRequest { r := gpus(1); r.Exactly.AdminAccess = ptr.To(true); return r }()},
			code:     reason.GateOff, says: []string{"DRAAdminAccess is off"}, fix: fixes.EnableGate,
		},
		{
			name: "derived attributes",
			requests: []resourceapi.DeviceRequest{func() resourceapi.DeviceRequest {
				r := gpus(1)
				r.Exactly.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: "example.com/half", Expression: "1"}}
				return r
			}()},
			code: reason.GateOff, says: []string{"DRADerivedAttributes is off"}, fix: fixes.EnableGate, fixSays: "DRADerivedAttributes",
		},
		{
			name: "binding conditions",
			seed: func(s *snapshot.Objects) {
				s.Gates.DeviceBindingAndStatus = false
				devices(s, "gpu.nvidia.com", func(_ int, d *resourceapi.Device) { d.BindingConditions = []string{"attached"} })
			},
			requests: []resourceapi.DeviceRequest{gpus(1)}, code: reason.GateOff, says: []string{"DRADeviceBindingConditions is off"}, fix: fixes.EnableGate,
		},
		{
			name: "compatibility groups",
			seed: func(s *snapshot.Objects) {
				devices(s, "gpu.nvidia.com", func(_ int, d *resourceapi.Device) {
					d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "x", CompatibilityGroups: []string{"a"}}}
				})
				slice := slicesOf(s, "gpu.nvidia.com")[0]
				plain := slice.DeepCopy()
				plain.Name += "-plain"
				plain.Spec.Devices = nil
				slice.Spec.Pool.ResourceSliceCount, plain.Spec.Pool.ResourceSliceCount = 2, 2
				s.Slices = append(s.Slices, plain)
			},
			requests: []resourceapi.DeviceRequest{gpus(1)}, code: reason.GateOff, says: []string{"has compatibility groups, and feature gate DRADeviceCompatibilityGroups is off"},
		},
	}
}

func causesOfPods() []cause {
	pod := func(claim string, limits corev1.ResourceList) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "trainer"}}
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: &claim}}
		p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits}}}
		return p
	}
	return []cause{
		{
			name: "GPU as an extended resource", requests: []resourceapi.DeviceRequest{nics(9)}, code: explain.ExtendedResource,
			pod:  pod("claim", corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}),
			says: []string{"nvidia.com/gpu is asked for as an extended resource: no constraint can name it", "ask for class gpu.nvidia.com in the claim instead"},
		},
		{
			name: "more GPUs as an extended resource than there are", requests: []resourceapi.DeviceRequest{nics(1)}, code: reason.TooFew,
			pod:  pod("claim", corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("9")}),
			says: []string{"container-0-request-0 wants 9 devices of class gpu.nvidia.com", "container-0-request-0 is nvidia.com/gpu of container main"}, fix: fixes.Fewer,
		},
		{
			name: "pod names a claim that is not there", requests: []resourceapi.DeviceRequest{nics(1)}, code: explain.ObjectAbsent, pod: pod("clam", nil),
			says: []string{"ResourceClaim default/clam does not exist: did it mean claim?"},
		},
	}
}

// Each cause that we know of is named rightly: by its code, in words with the
// devices and values, and with the fix that one would look for.
func TestCausesAreNamed(t *testing.T) {
	seeded := causes()
	if len(seeded) < 30 {
		t.Errorf("%d causes: want 30", len(seeded))
	}
	for _, c := range seeded {
		t.Run(c.name, func(t *testing.T) {
			s := A3(t, 1)
			if c.seed != nil {
				c.seed(&s)
			}
			claim := Claim("claim", c.constraints, c.requests...)
			s.Claims = append(s.Claims, claim)
			subject := explain.OfClaim(claim)
			if c.pod != nil {
				subject = explain.OfPod(c.pod, s.Claims, nil, s.Classes)
			}
			known, err := snapshot.New(s).Only([]string{a3})
			if err != nil {
				t.Fatal(err)
			}
			r, err := explain.Explain(t.Context(), known, subject)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := r.Text(&text); err != nil {
				t.Fatal(err)
			}
			checkCause(t, &c, r, text.String())
		})
	}
}

func checkCause(t *testing.T, c *cause, r *explain.Report, text string) {
	t.Helper()
	var codes []string
	var proposed []fixes.Fix
	for _, g := range r.Groups {
		codes = append(codes, g.Cause)
		proposed = append(proposed, g.Fixes...)
	}
	for _, f := range r.Findings {
		codes = append(codes, f.Cause)
	}
	if r.Verdict != explain.FitsNot && r.Verdict != explain.Aborts || !slices.Contains(codes, c.code) {
		t.Errorf("verdict %q, causes %q: want cause %q\n%s", r.Verdict, codes, c.code, text)
	}
	for _, words := range c.says {
		if !strings.Contains(text, words) {
			t.Errorf("it does not say %q:\n%s", words, text)
		}
	}
	if c.fix != "" && !slices.ContainsFunc(proposed, func(f fixes.Fix) bool { return f.Kind == c.fix && strings.Contains(f.Text, c.fixSays) }) {
		t.Errorf("no fix %s with %q:\n%s", c.fix, c.fixSays, text)
	}
}

// Eight pairs and seven NICs cost the scheduler's search seconds, which is said;
// four pairs do not.
func TestSearchBeyondTheBudget(t *testing.T) {
	for _, tc := range []struct {
		pairs int
		want  bool
	}{{8, true}, {4, false}} {
		s := sevenNICs(t)
		for i := range 8 - tc.pairs {
			s.Claims = append(s.Claims, Holding(fmt.Sprintf("nic-%d", i), nicID(i+1)))
		}
		r, out := text(t, s, explain.OfClaim(pairs(tc.pairs, true, false)))
		if r.Verdict != explain.FitsNot || r.Groups[0].ExceedsBudget != tc.want || strings.Contains(out, "gives up on all nodes after 10 s") != tc.want {
			t.Errorf("%d pairs: want tedious %v:\n%s", tc.pairs, tc.want, out)
		}
	}
}
