// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// mpiImage is the lab's image of Open MPI.
const mpiImage = "plumbline.dev/lab/openmpi:latest"

// TestMPIJobOnHostDiffersAsDeclared makes of the document's objects what the overlay says
// that it makes of them, and wants nothing else to differ.
func TestMPIJobOnHostDiffersAsDeclared(t *testing.T) {
	want, got := build(t, "mpi-operator-gpudirect/manifests"), build(t, "mpi-operator-gpudirect/host")

	class := want["DeviceClass dranet-rdma-for-mpi"].(*resourcev1.DeviceClass)
	if rdma := class.Spec.Selectors[1].CEL.Expression; !strings.HasSuffix(rdma, ".rdma == true") {
		t.Errorf("the class's second selector is %s", rdma)
	}
	class.Spec.Selectors = class.Spec.Selectors[:1]

	template := want["ResourceClaimTemplate mpi-worker-rdma-nic-template"].(*resourcev1.ResourceClaimTemplate)
	nic := &template.Spec.Spec.Devices.Requests[0].Exactly.Selectors[0].CEL.Expression
	*nic = strings.Replace(*nic, `== "gpu2rdma0"`, `in ["nic0", "nic1"]`, 1)
	opaque := template.Spec.Spec.Devices.Config[0].Opaque
	parameters := map[string]any{}
	if err := json.Unmarshal(opaque.Parameters.Raw, &parameters); err != nil {
		t.Fatal(err)
	}
	parameters["routes"] = []any{map[string]any{"destination": "10.33.0.0/16", "scope": 253}}
	var err error
	if opaque.Parameters.Raw, err = json.Marshal(parameters); err != nil {
		t.Fatal(err)
	}

	job := want["MPIJob nccl-test-dranet-1gpu-1nic"].(*mpiJob)
	for role, replica := range job.Spec.MPIReplicaSpecs {
		c := &replica.Template.Spec.Containers[0]
		c.Image, c.ImagePullPolicy = mpiImage, corev1.PullIfNotPresent
		if role == "Worker" {
			c.Resources, c.VolumeMounts, replica.Template.Spec.Volumes = corev1.ResourceRequirements{}, nil, nil
			job.Spec.MPIReplicaSpecs[role] = replica
			continue
		}
		c.Args = []string{ofLab(t, c.Args[0])}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the overlay differs in more than it declares (-document +overlay):\n%s", diff)
	}
}

// trainingImage is the lab's image of PyTorch for CPUs.
const trainingImage = "plumbline.dev/lab/training:latest"

// TestTrainingOnHostDiffersAsDeclared is likewise of the jobs that train.
func TestTrainingOnHostDiffersAsDeclared(t *testing.T) {
	want, got := build(t, "distributed-training-numa/benchmark"), build(t, "distributed-training-numa/host")
	nics := map[string]string{"aligned": `["nic0", "nic1"]`, "unaligned": `["nic4", "nic5"]`}
	for kind, links := range nics {
		devices := &want["ResourceClaimTemplate h100-4gpu-4nic-numa-"+kind].(*resourcev1.ResourceClaimTemplate).Spec.Spec.Devices
		nic := devices.Requests[1]
		nic.Exactly.Count = 0
		nic.Exactly.Selectors[0].CEL.Expression = `device.attributes["dra.net"].ifName in ` + links
		devices.Requests = []resourcev1.DeviceRequest{nic}
		devices.Config = []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
			Driver: "dra.net", Parameters: runtime.RawExtension{Raw: []byte(`{"interface":{"name":"dranet0"},"routes":[{"destination":"10.33.0.0/16","scope":253}]}`)},
		}}}}

		job := want["MPIJob mpi-job-4gpu-4nic-numa-"+kind].(*mpiJob)
		job.Spec.SlotsPerWorker = 1
		for role, replica := range job.Spec.MPIReplicaSpecs {
			spec := &replica.Template.Spec
			c := &spec.Containers[0]
			c.Image, c.ImagePullPolicy = trainingImage, corev1.PullIfNotPresent
			if role == "Launcher" {
				c.Env = nil
				continue
			}
			spec.Affinity, spec.Volumes[1].EmptyDir.SizeLimit = nil, new(resource.MustParse("256Mi"))
			job.Spec.MPIReplicaSpecs[role] = replica
		}
		// Of the model there is less, and it goes by another library and interface.
		env := got["MPIJob mpi-job-4gpu-4nic-numa-"+kind].(*mpiJob).Spec.MPIReplicaSpecs["Launcher"].Template.Spec.Containers[0].Env
		if i := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == "GLOO_SOCKET_IFNAME" && v.Value == "dranet0" }); i < 0 {
			t.Errorf("%s: the ranks are not told the claimed NIC: %v", kind, env)
		}
		got["MPIJob mpi-job-4gpu-4nic-numa-"+kind].(*mpiJob).Spec.MPIReplicaSpecs["Launcher"].Template.Spec.Containers[0].Env = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the overlay differs in more than it declares (-document +overlay):\n%s", diff)
	}
}

// TestTrainingJobsDifferInTemplates wants what the document says: the two jobs are otherwise
// identical.
func TestTrainingJobsDifferInTemplates(t *testing.T) {
	read := func(kind string) string {
		text, err := os.ReadFile("distributed-training-numa/benchmark/mpi-job-4gpu-4nic-numa-" + kind + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), "numa-"+kind, "numa-KIND")
	}
	if diff := cmp.Diff(read("aligned"), read("unaligned")); diff != "" {
		t.Errorf("they differ in more than their template (-aligned +unaligned):\n%s", diff)
	}
}

// ofLab is the document's script with the lab's program in place of NCCL's test, whose
// libraries are Google Cloud's.
func ofLab(t *testing.T, script string) string {
	t.Helper()
	lines := strings.Split(script, "\n")
	from := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "-x LD_LIBRARY_PATH") })
	if from < 0 {
		t.Fatalf("the document's script is another one:\n%s", script)
	}
	return strings.Join(append(lines[:from],
		`  -mca pml ob1 -mca btl tcp,self -mca btl_tcp_if_include dranet0 \`, `  /usr/local/bin/allreduce`, ""), "\n")
}
