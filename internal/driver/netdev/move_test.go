// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
)

func pid() int { return os.Getpid() }

func procPath(fd int) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd) }

// busy gives nic0 all that a move loses.
const busy = `
	ip address add 10.33.0.2/32 dev nic0
	ip address add 10.44.0.2/24 brd + metric 7 dev nic0
	ip address add fd00::2/64 dev nic0 nodad
	ip address add fd01::2/64 dev nic0
	ip link set nic0 mtu 1400 up
	ip route add 10.33.0.1 dev nic0 proto static
	ip route add 10.99.0.0/16 via 10.33.0.1 dev nic0 metric 50 table 77
	ip route add 10.98.0.0/16 via 10.33.0.1 dev nic0 src 10.44.0.2 mtu 1300
	ip route add fd0f::/48 via fd00::1 dev nic0 proto static
	ip neighbour add 10.44.0.9 lladdr 02:00:00:00:09:09 nud permanent dev nic0`

func TestAttachAndDetach(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy)
	before := look(t, l.host)
	pod := hosttest.NewNamespace(t)
	pod.Run(t, quiet)
	r := l.plan(t, claim(`{"interface": {"name": "gpu0rdma0", "mtu": 1300, "gsoMaxSize": 32768}}`, "nic0"))

	want := []driver.DeviceStatus{{
		Device: "nic0", InterfaceName: "gpu0rdma0", HardwareAddress: "02:00:00:00:00:00",
		IPs: []string{"10.33.0.2/32", "10.44.0.2/24", "fd01::2/64", "fd00::2/64"},
	}}
	for range 2 { // the second finds everything done
		if diff := cmp.Diff(want, l.attach(t, r, pod)); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	}
	link := l.nicIn(t, pod, "02:00:00:00:00:00")
	if link == nil || link.Name != "gpu0rdma0" || *link.MTU != 1300 || !link.Up || *link.Settings.GSOMax != 32768 {
		t.Errorf("in the pod: %+v", link)
	}
	l.driver = l.newDriver(t) // as after a restart
	for range 2 {
		if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
			t.Fatal(err)
		}
		expect(t, "the host", before, l.host)
	}
	if link := l.nicIn(t, pod, "02:00:00:00:00:00"); link != nil {
		t.Errorf("still in the pod: %+v", link)
	}
}

func TestPodRenamesAndReconfigures(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy)
	before := look(t, l.host)
	pod := hosttest.NewNamespace(t)
	r := l.plan(t, claim("", "nic0"))
	l.attach(t, r, pod)
	pod.Run(t, `
		ip link set nic0 down
		ip link set nic0 name mine mtu 900
		ip link set mine up
		ip address flush dev mine`)
	if s := l.attach(t, r, pod); s[0].InterfaceName != "mine" {
		t.Errorf("attaching again must leave the pod's name: %+v", s)
	}
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	expect(t, "the host", before, l.host)
}

// A physical NIC whose pod's namespace ended is back on the host under another
// name, down and bare. A veth would be destroyed, so it is put there by hand.
func TestReturnedByTheKernel(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy)
	before := look(t, l.host)
	pod := hosttest.NewNamespace(t)
	r := l.plan(t, claim(`{"interface": {"name": "net1", "mtu": 1300}}`, "nic0"))
	l.attach(t, r, pod)
	conn := l.nicIn(t, pod, "02:00:00:00:00:00")
	if conn == nil {
		t.Fatal("not in the pod")
	}
	pod.Run(t, "ip link set net1 name dev3 netns "+procPath(l.host.Fd()))
	pod.Close()
	for range 2 {
		if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
			t.Fatal(err)
		}
		expect(t, "the host", before, l.host)
	}
}

func TestNamespaceEndedFirst(t *testing.T) {
	l := newLab(t)
	pod := hosttest.NewNamespace(t)
	r := l.plan(t, claim("", "nic0"))
	l.attach(t, r, pod)
	path := pod.Path()
	pod.Close()
	for _, p := range []string{path, ""} {
		if err := l.driver.Detach(t.Context(), r, p); !driver.OnlyGone(err) {
			t.Errorf("a veth ends with its namespace: got %v, want that it is gone", err)
		}
	}
}

func TestSecondDeviceFails(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy)
	pod := hosttest.NewNamespace(t)
	pod.Run(t, "ip link add nic1 type veth peer name other")
	r := l.plan(t, claim("", "nic0", "nic1", "nic2"))
	before := look(t, l.host)
	_, err := l.driver.Attach(t.Context(), r, pod.Path())
	want := `attach claim default/claim: device nic1: interface.name: the pod has an interface "nic1", or one of that alternative name, already: choose another name: `
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v\nwant  %s", err, want)
	}
	expect(t, "the host", before, l.host)
	pod.Run(t, "ip link delete nic1")
	l.attach(t, r, pod)
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	expect(t, "the host after a retry", before, l.host)
}

// The kernel refuses the MTU after it moved the link.
func TestKernelRefusesAfterTheMove(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy)
	before := look(t, l.host)
	pod := hosttest.NewNamespace(t)
	r := l.plan(t, claim("", "nic1", "nic0"))
	plan, err := ReadPlan(r.Devices[1])
	if err != nil {
		t.Fatal(err)
	}
	tooSmall := 10
	plan.Pod.Settings.MTU = &tooSmall
	if r.Devices[1].Plan, err = json.Marshal(plan); err != nil {
		t.Fatal(err)
	}
	_, err = l.driver.Attach(t.Context(), r, pod.Path())
	if err == nil || !strings.Contains(err.Error(), "device nic0: interface nic0 to nic0 in the pod: move link") {
		t.Errorf("error %v", err)
	}
	expect(t, "the host", before, l.host)
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	expect(t, "the host", before, l.host)
}

func TestHostNetworkPod(t *testing.T) {
	l := newLab(t)
	r := l.plan(t, claim("", "nic0"))
	_, err := l.driver.Attach(t.Context(), r, l.host.Path())
	if err == nil || !strings.Contains(err.Error(), "the pod uses the host's network") {
		t.Errorf("error %v", err)
	}
	if err := l.driver.Detach(t.Context(), r, l.host.Path()); err != nil {
		t.Error(err)
	}
	if !l.driver.Moves(r) {
		t.Error("a NIC does not move")
	}
	looks := claim("", "nic0")
	looks.Devices[0].AdminAccess = true
	if l.driver.Moves(l.plan(t, looks)) {
		t.Error("a NIC moves under admin access")
	}
}

// What of an RDMA device goes into a pod's namespace is in the record.
func TestMovesOfRDMADevices(t *testing.T) {
	for plan, want := range map[string]bool{
		`{"nic":{}}`:                          false,
		`{"nic":{},"rdma":{"name":"mlx5_0"}}`: false, // shared, and without an interface
		`{"nic":{},"rdma":{"name":"mlx5_0","exclusive":true}}`: true,
		`"no plan"`: true,
	} {
		r := driver.Record{Devices: []driver.DeviceRecord{{Plan: []byte(`{"nic":{}}`)}, {Plan: []byte(plan)}}}
		if got := (&Driver{}).Moves(r); got != want {
			t.Errorf("%s: moves %t, want %t", plan, got, want)
		}
	}
}

func TestHostNameTakenMeanwhile(t *testing.T) {
	l := newLab(t)
	l.host.Run(t, busy)
	before := look(t, l.host)
	pod := hosttest.NewNamespace(t)
	r := l.plan(t, claim("", "nic0"))
	l.attach(t, r, pod)
	l.host.Run(t, "ip link add nic0 type veth peer name other")
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err == nil || !strings.Contains(err.Error(), `another interface "nic0"`) {
		t.Errorf("error %v", err)
	}
	if l.nicIn(t, l.host, "02:00:00:00:00:00") == nil {
		t.Fatal("the NIC was lost with the pod")
	}
	l.host.Run(t, "ip link delete nic0")
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	expect(t, "the host", before, l.host)
}
