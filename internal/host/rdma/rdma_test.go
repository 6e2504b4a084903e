// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/hosttest"
)

func TestWithoutRDMA(t *testing.T) {
	ns := hosttest.NewNamespace(t)
	if _, err := NamespaceMode(ns.Fd()); !errors.Is(err, ErrNone) {
		if err != nil {
			t.Fatal(err)
		}
		t.Skip("this kernel has RDMA")
	}
	if devices, err := Devices(ns.Fd()); len(devices) != 0 || err != nil {
		t.Errorf("devices %v, %v", devices, err)
	}
	if err := Move(ns.Fd(), "rxe0", ns.Fd()); !errors.Is(err, ErrNone) {
		t.Errorf("moving one: %v", err)
	}
}

// A software device on a veth: made, found, and gone with its interface.
func TestSoftware(t *testing.T) {
	if !hosttest.OnGuest() {
		t.Skip("RDMA devices are seen in all namespaces: made on the virtual machine only")
	}
	ns := hosttest.NewNamespace(t)
	if mode, err := NamespaceMode(ns.Fd()); mode != Shared || err != nil {
		t.Fatalf("the virtual machine's namespace mode is %q, %v", mode, err)
	}
	hosttest.Veth(t, ns, "nic0", ns, "nic1")
	ns.Run(t, "ip link set nic0 up")
	const name = "plumbtest0"
	for range 2 {
		if err := AddSoftware(ns.Fd(), name, "rxe", "nic0"); err != nil {
			t.Fatal(err)
		}
	}
	find := func() *Device {
		devices, err := Devices(ns.Fd())
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(devices, func(d Device) bool { return d.Name == name }); i >= 0 {
			return &devices[i]
		}
		return nil
	}
	if d := find(); d == nil || d.Kind != "rxe" {
		t.Errorf("the device is %+v, want kind rxe", d)
	}
	for ifname, want := range map[string]int{"nic0": 1, "nic1": 0} {
		text, err := os.ReadFile(ns.Sys(t) + "/class/net/" + ifname + "/ifindex")
		if err != nil {
			t.Fatal(err)
		}
		index, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if on, err := On(ns.Fd(), index); len(on) != want || err != nil {
			t.Errorf("on %s: %+v, %v, want %d", ifname, on, err, want)
		}
	}
	if err := AddSoftware(ns.Fd(), "plumbtest1", "rxe", "nic0"); err == nil {
		t.Error("an interface took a second device")
	}
	ns.Run(t, "ip link delete nic0")
	if d := find(); d != nil {
		t.Errorf("%+v outlives its interface", d)
	}
}

func attributes(list ...*nl.RtAttr) []byte {
	var body []byte
	for _, a := range list {
		body = append(body, a.Serialize()...)
	}
	return body
}

// The mode stays as it is while there is a namespace beside the first.
func TestSetNamespaceMode(t *testing.T) {
	if !hosttest.OnGuest() {
		t.Skip("the mode is the whole host's: set on the virtual machine only")
	}
	if err := SetNamespaceMode(Shared); err != nil {
		t.Errorf("what it is already: %v", err)
	}
	ns := hosttest.NewNamespace(t)
	if err := SetNamespaceMode(Exclusive); !errors.Is(err, unix.EBUSY) {
		t.Errorf("beside a namespace: %v, want %v", err, unix.EBUSY)
	}
	if mode, err := NamespaceMode(ns.Fd()); mode != Shared || err != nil {
		t.Errorf("mode %q, %v", mode, err)
	}
}

func TestParse(t *testing.T) {
	for value, want := range map[byte]Mode{0: Exclusive, 1: Shared} {
		if got, err := parseMode(attributes(nl.NewRtAttr(nl.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, []byte{value}))); got != want || err != nil {
			t.Errorf("mode %d is %s, %v, want %s", value, got, err, want)
		}
	}
	if mode, err := parseMode(nil); err == nil {
		t.Errorf("no mode at all is %s", mode)
	}
	body := attributes(nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(7)),
		nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_NAME, nl.ZeroTerminated("mlx5_0")))
	if d, err := parseDevice(body); d != (Device{Name: "mlx5_0", Index: 7}) || err != nil {
		t.Errorf("device %+v, %v", d, err)
	}
	for id, want := range map[uint32]string{1: "", driverRXE: "rxe", driverSIW: "siw"} {
		if got, err := parseKind(attributes(nl.NewRtAttr(attrDriverID, nl.Uint32Attr(id)))); got != want || err != nil {
			t.Errorf("driver %d is %q, %v, want %q", id, got, err, want)
		}
	}
}

// The answer to RDMA_NLDEV_CMD_PORT_GET, laid out as fill_port_info of
// drivers/infiniband/core/nldev.c does; not recorded, for want of RDMA hardware.
func TestParsePort(t *testing.T) {
	port := []*nl.RtAttr{
		nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(0)),
		nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_NAME, nl.ZeroTerminated("mlx5_0")),
		nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_PORT_INDEX, nl.Uint32Attr(1)),
		nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_PORT_STATE, []byte{4}),
		nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_PORT_PHYS_STATE, []byte{5}),
	}
	if index, err := parsePort(attributes(port...)); index != 0 || err != nil {
		t.Errorf("a port without an interface here: %d, %v", index, err)
	}
	port = append(port, nl.NewRtAttr(attrNetDevIndex, nl.Uint32Attr(23)), nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_NDEV_NAME, nl.ZeroTerminated("dranet0")))
	if index, err := parsePort(attributes(port...)); index != 23 || err != nil {
		t.Errorf("interface %d, %v, want 23", index, err)
	}
	if _, err := parsePort(attributes(port...)[:60]); err == nil {
		t.Error("an answer that was cut off is read")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(attributes(nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_NAME, nl.ZeroTerminated("rxe0")), nl.NewRtAttr(attrDriverID, nl.Uint32Attr(14))))
	f.Add(attributes(nl.NewRtAttr(nl.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, []byte{1})))
	f.Add(attributes(nl.NewRtAttr(attrNetDevIndex, nl.Uint32Attr(7))))
	f.Fuzz(func(t *testing.T, body []byte) {
		if mode, err := parseMode(body); err == nil && mode != Shared && mode != Exclusive {
			t.Errorf("mode %q", mode)
		}
		if d, err := parseDevice(body); err == nil && d.Name == "" {
			t.Error("a device without a name")
		}
		if index, err := parsePort(body); err == nil && index < 0 {
			t.Errorf("interface %d", index)
		}
		if kind, err := parseKind(body); err == nil && kind != "" && kind != "rxe" && kind != "siw" {
			t.Errorf("kind %q", kind)
		}
	})
}
