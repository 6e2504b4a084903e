// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rdma"
)

// An RDMA device that is named anew, and whose name another one has by then, is found by
// its function: on the way to the pod, in it, and after the kernel brought it back.
func TestRDMADeviceThatIsNamedAnew(t *testing.T) {
	l := newLab(t)
	pod := hosttest.NewNamespace(t)
	places := map[string]*hosttest.Namespace{"host": l.host, "pod": pod}
	anew := strings.NewReplacer("ibdev = mlx5_0", "ibdev = mlx5_4", "ibdev = mlx5_1", "ibdev = mlx5_0")
	r := rdmaRecord(t, Plan{NIC: hca(t, "mlx5_0", "0000:91:00.0"), RDMA: &RDMA{Name: "mlx5_0", Exclusive: true}})
	for _, when := range []string{"on the host", "in the pod", "with the pod's namespace gone"} {
		t.Run(when, func(t *testing.T) {
			onHost, inPod := inode(l.host.Fd()), inode(pod.Fd())
			fake := newFakeRDMA(t, rdmaState{Mode: rdma.Exclusive, Devices: []rdmaStateDevice{{Name: "mlx5_0", Namespace: onHost}, {Name: "mlx5_1", Namespace: onHost}}})
			l.driver.rdma, l.driver.sys = fake, hosttest.Tree(t, rdmaFiles)
			rename := func(in uint64) {
				t.Helper()
				l.driver.sys = hosttest.Tree(t, anew.Replace(rdmaFiles))
				if err := fake.write(rdmaState{Mode: rdma.Exclusive, Devices: []rdmaStateDevice{{Name: "mlx5_4", Namespace: in}, {Name: "mlx5_0", Namespace: onHost}}}); err != nil {
					t.Fatal(err)
				}
			}
			if when == "on the host" {
				rename(onHost)
			}
			if _, err := l.driver.Attach(t.Context(), r, pod.Path()); err != nil {
				t.Fatal(err)
			}
			if when == "in the pod" {
				rename(inPod)
			}
			e, err := l.driver.ContainerEdits(t.Context(), []driver.Record{r}, pod.Path())
			if got := filesLine(e, err); got != "uverbs4 231:196 666, rdma_cm 10:122 666" {
				t.Errorf("a container gets %q", got)
			}
			path := pod.Path()
			if when == "with the pod's namespace gone" {
				rename(onHost)
				path = ""
			}
			for range 2 {
				if err := l.driver.Detach(t.Context(), r, path); err != nil {
					t.Errorf("detach: %v", err)
				}
			}
			if got := fake.where(t, places); got != "mlx5_4 host, mlx5_0 host" {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}
