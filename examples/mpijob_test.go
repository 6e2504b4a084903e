// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
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
