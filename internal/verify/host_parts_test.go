// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"fmt"
	"os"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/evaluate"
	"plumbline.dev/plumbline/internal/verify/verifytest"
)

// Folders and variables of the host that a class gives beside a NIC are nothing that verify
// finds wrong, or cannot tell of: its verdict is that of the pod without them.
func TestHostPartsOfAClass(t *testing.T) {
	n := verifytest.NewNode(t, "a3-ultragpu-8g")
	p := n.NewPod("train")
	allocated := n.Give(p, verifytest.Ours(), []int{2}, []int{2}, cpuset.New(60, 61, 62, 63))
	devices := &allocated.Claim.Status.Allocation.Devices
	devices.Config = append(devices.Config, resourceapi.DeviceAllocationConfiguration{
		Source: resourceapi.AllocationConfigSourceClass,
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: slicecodec.DriverNet, Parameters: runtime.RawExtension{Raw: []byte(
				`{"container": {"mounts": [{"hostPath": "/home/kubernetes/bin/gib", "containerPath": "/usr/local/gib"}], "env": {"NCCL_NET": "gIB"}}}`)},
		}},
	})
	expected := allocated.Expect()
	n.Write(t, p)
	first := look(t, n, n.Reader(t), p, expected)
	without := explain(first)
	if first.Status != evaluate.True {
		t.Fatalf("without the folders: %s", without)
	}

	add := func(file, text string) {
		t.Helper()
		f, err := os.OpenFile(n.Path(fmt.Sprintf("proc/%d/%s", p.PID, file)), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	add("mountinfo", "9 1 8:1 /home/kubernetes/bin/gib /usr/local/gib ro,nosuid,nodev - ext4 /dev/sda1 rw\n"+
		"10 1 0:9 / /usr/local/nvidia ro,nosuid,nodev - fuse.lib lib rw\n")
	add("environ", "LD_LIBRARY_PATH=/usr/local/gib/lib64\x00NCCL_NET=gIB\x00")
	for _, file := range []string{"usr/local/gib/scripts/set_nccl_env.sh", "usr/local/nvidia/lib64/libnccl-net.so"} {
		at := n.Path(fmt.Sprintf("proc/%d/root/%s", p.PID, file))
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if with := explain(look(t, n, n.Reader(t), p, expected)); with != without {
		t.Errorf("with the class's folders verify says %s\nwithout them %s", with, without)
	}
}
