// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/host/sysfs"
	"plumbline.dev/plumbline/internal/model"
)

// TestRDMAInPod takes a NIC with a software RDMA device through a claim, in a real
// kernel: the device ends with the move, is made again in the pod by somebody who stands
// for the hardware, gives its own file and a GID of the pod's address, is destroyed by
// the pod, and is on the host again in the end.
func TestRDMAInPod(t *testing.T) {
	if !hosttest.OnGuest() {
		t.Skip("RDMA devices are seen in all namespaces: made on the virtual machine only")
	}
	l, pod := newLab(t), hosttest.NewNamespace(t)
	if mode, err := rdma.NamespaceMode(l.host.Fd()); mode != rdma.Shared || err != nil {
		t.Skipf("the mode of RDMA devices is %q (%v): want shared", mode, err)
	}
	const onHost, inPod = "plumbhost0", "plumbpod0"
	l.host.Run(t, "ip link set nic0 up")
	if err := rdma.AddSoftware(l.host.Fd(), onHost, "rxe", "nic0"); err != nil {
		t.Fatal(err)
	}
	l.driver.sys = os.DirFS("/sys")
	m := l.machine(t)
	m.NICs[0].RDMA = &model.RDMADevice{Name: onHost, Software: true}
	r, err := l.driver.Plan(claim(`{"interface": {"name": "net1", "addresses": ["10.91.0.2/24"]}}`, "nic0"), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.attach(t, r, pod)
	if e := filesIn(t, l, r, pod); len(e.CharDevices) != 0 {
		t.Errorf("before anybody made one: %+v", e.CharDevices)
	}
	if err := rdma.AddSoftware(pod.Fd(), inPod, "rxe", "net1"); err != nil {
		t.Fatal(err)
	}
	own := filesOfDevice(t, inPod)
	got := map[string]bool{}
	for _, d := range filesIn(t, l, r, pod).CharDevices {
		got[fmt.Sprintf("%s %d:%d", d.Path, d.Major, d.Minor)] = true
		var s unix.Stat_t
		if err := unix.Stat(d.Path, &s); err == nil && (int64(unix.Major(s.Rdev)) != d.Major || int64(unix.Minor(s.Rdev)) != d.Minor) {
			t.Errorf("%+v is %d:%d on the host", d, unix.Major(s.Rdev), unix.Minor(s.Rdev))
		}
	}
	if len(own) == 0 {
		t.Errorf("%s has no file of verbs", inPod)
	}
	for _, file := range own {
		if !got[file] {
			t.Errorf("the container gets %v, without %s", got, file)
		}
	}
	if err := awaitRoCEGID(t.Context(), pod, inPod, netip.MustParseAddr("10.91.0.2")); err != nil {
		t.Error(err)
	}
	if _, err := exec.LookPath("rdma"); err != nil {
		t.Fatalf("the virtual machine has no rdma of iproute2: %v", err)
	}
	// The pod destroys it with its own rights.
	pod.Run(t, "rdma link delete "+inPod)
	if e := filesIn(t, l, r, pod); len(e.CharDevices) != 0 {
		t.Errorf("after the pod destroyed it: %+v", e.CharDevices)
	}
	// And one is left behind by a pod that ends.
	if err := rdma.AddSoftware(pod.Fd(), onHost, "rxe", "net1"); err != nil {
		t.Fatal(err)
	}
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	index := l.nicIn(t, l.host, "02:00:00:00:00:00").Index
	if on, err := rdma.On(l.host.Fd(), index); err != nil || len(on) != 1 || on[0].Name != onHost {
		t.Errorf("on the host again: %+v, %v, want %s", on, err, onHost)
	}
}

// A link on a shared NIC has its address among the GIDs of the NIC's RDMA device, as the pod
// sees that, and the device stays.
func TestRDMAOfAShare(t *testing.T) {
	if !hosttest.OnGuest() {
		t.Skip("RDMA devices are seen in all namespaces: made on the virtual machine only")
	}
	hosttest.NeedLink(t, "macvlan")
	l, pod := newLab(t), hosttest.NewNamespace(t)
	pod.Run(t, quiet)
	if mode, err := rdma.NamespaceMode(l.host.Fd()); mode != rdma.Shared || err != nil {
		t.Skipf("the mode of RDMA devices is %q (%v): want shared", mode, err)
	}
	const device = "plumbshare0"
	l.host.Run(t, "ip link set nic0 up")
	if err := rdma.AddSoftware(l.host.Fd(), device, "rxe", "nic0"); err != nil {
		t.Fatal(err)
	}
	l.driver.sys = os.DirFS("/sys")
	m := l.machine(t)
	files := filesOfDevice(t, device)
	if len(files) == 0 {
		t.Fatalf("%s has no file of verbs", device)
	}
	path, _, _ := strings.Cut(files[0], " ")
	m.NICs[0].RDMA = &model.RDMADevice{Name: device, Software: true, CharDevices: []string{path}}
	m.NICs[0].Share = &model.Share{Type: model.ShareMacvlan, Slots: 4}
	r, err := l.driver.Plan(shareOf("a", `{"interface": {"name": "net1", "addresses": ["10.91.0.3/24"]}}`, "nic0"), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.attach(t, r, pod)
	if got := r.Devices[0].Edits.DeviceNodes; len(got) != 1 || got[0].Path != path {
		t.Errorf("the container's files are %+v, want %s", got, path)
	}
	if err := awaitRoCEGID(t.Context(), pod, device, netip.MustParseAddr("10.91.0.3")); err != nil {
		t.Error(err)
	}
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	index := l.nicIn(t, l.host, "02:00:00:00:00:00").Index
	if on, err := rdma.On(l.host.Fd(), index); err != nil || len(on) != 1 || on[0].Name != device {
		t.Errorf("on the host afterwards: %+v, %v, want %s", on, err, device)
	}
}

func filesIn(t *testing.T, l *lab, r driver.Record, pod *hosttest.Namespace) driver.ContainerEdits {
	t.Helper()
	e, err := l.driver.ContainerEdits(t.Context(), []driver.Record{r}, pod.Path())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// filesOfDevice are the verbs of an RDMA device, with their numbers.
func filesOfDevice(t *testing.T, name string) []string {
	t.Helper()
	files, _ := sysfs.ReadRDMAFiles(os.DirFS("/sys"))
	var own []string
	for _, f := range files {
		if f.RDMADevice == name && f.Kind == "uverbs" && f.Number != nil {
			own = append(own, fmt.Sprintf("%s %d:%d", f.Path, f.Number.Major, f.Number.Minor))
		}
	}
	return own
}

// awaitRoCEGID waits for a RoCE v2 GID as the pod sees it.
func awaitRoCEGID(ctx context.Context, pod *hosttest.Namespace, device string, want netip.Addr) error {
	sys, err := sysfs.OpenNamespace(pod.Fd())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		gids, _ := sysfs.ReadGIDs(sys, device, 1)
		for _, g := range gids {
			if g.Address == want && g.Type != nil && *g.Type == sysfs.RoCEv2 {
				return sys.Close()
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("no RoCE v2 GID of %s within 10 s: %+v", want, gids), sys.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
