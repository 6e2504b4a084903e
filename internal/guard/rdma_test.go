// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rdma"
)

// verbs is what /sys of a pod shows of an HCA without its GIDs.
const verbs = `
	class/infiniband/mlx5_0 -> ../../devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0
	devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/node_type = 1: CA
	devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/ports/1/link_layer = Ethernet
	class/infiniband_verbs/uverbs3 -> ../../devices/pci0000:8c/0000:91:00.0/infiniband_verbs/uverbs3
	devices/pci0000:8c/0000:91:00.0/infiniband_verbs/uverbs3/ibdev = mlx5_0
	devices/pci0000:8c/0000:91:00.0/infiniband_verbs/uverbs3/dev = 231:195
`

// gid is one entry of its table, at an index.
func gid(index, address, kind, ndev string) string {
	port := "devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/ports/1/"
	return port + "gids/" + index + " = " + address + "\n" + port + "gid_attrs/types/" + index + " = " + kind + "\n" +
		port + "gid_attrs/ndevs/" + index + " = " + ndev + "\n"
}

const (
	own       = "0000:0000:0000:0000:0000:ffff:0a01:0002" // 10.1.0.2
	other     = "0000:0000:0000:0000:0000:ffff:0a01:0003"
	linkLocal = "fe80:0000:0000:0000:0000:00ff:fe00:0001"
	empty     = "0000:0000:0000:0000:0000:0000:0000:0000"
)

// bundleOf is the bundle of a container with a variable and a device file.
func bundleOf(t *testing.T, env string, minor int64) string {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(map[string]any{
		"process": map[string]any{"env": []string{env}},
		"linux":   map[string]any{"devices": []any{map[string]any{"path": "/dev/infiniband/uverbs3", "type": "c", "major": 231, "minor": minor}}},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestContainerWithItsRDMADevice(t *testing.T) {
	pod, elsewhere := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	hosttest.Veth(t, pod, "net1", elsewhere, "peer")
	pod.Run(t, "ip address add 10.1.0.2/24 dev net1")
	nic := virtual(t, pod, "net1")
	pid := container(t, pod, "sleep", "60")
	const marker = "PLUMBLINE_CLAIM_uid_0=dra.net/nic0"
	const noGID = "device nic0 of claim default/nic: RDMA device mlx5_0 has no RoCE v2 GID of 10.1.0.2 of interface net1"
	infiniBand := strings.ReplaceAll(verbs, "Ethernet", "InfiniBand")
	iWARP := strings.ReplaceAll(verbs, "1: CA", "4: RNIC")
	for _, test := range []struct {
		name   string
		sys    string
		env    string
		minor  int64
		device string // empty: software, which is mlx5_0 on interface on
		on     bool
		want   string
	}{
		{"with a GID of its address", verbs + gid("0", linkLocal, "RoCE v2", "net1") + gid("3", own, "RoCE v2", "net1"), marker, 195, "mlx5_0", false, ""},
		{"the address of another", verbs + gid("3", other, "RoCE v2", "net1"), marker, 195, "mlx5_0", false, noGID},
		{"the interface of another", verbs + gid("3", own, "RoCE v2", "net9"), marker, 195, "mlx5_0", false, noGID},
		{"an empty entry", verbs + gid("0", empty, "RoCE v2", "net1"), marker, 195, "mlx5_0", false, noGID},
		{"RoCE v1 alone", verbs + gid("3", own, "IB/RoCE v1", "net1"), marker, 195, "mlx5_0", false, noGID + ", only 10.1.0.2 of type IB/RoCE v1"},
		{"RoCE is switched off", verbs, marker, 195, "mlx5_0", false, ""},
		{"InfiniBand", infiniBand + gid("0", linkLocal, "IB/RoCE v1", ""), marker, 195, "mlx5_0", false, ""},
		{"iWARP", iWARP + gid("0", linkLocal, "IB/RoCE v1", ""), marker, 195, "mlx5_0", false, ""},
		{"in no namespace of the pod's", "class/net/lo/ifindex = 1", marker, 195, "mlx5_0", false,
			"device nic0 of claim default/nic: RDMA device mlx5_0 is not in the pod's network namespace"},
		{"named anew since the claim was prepared", strings.ReplaceAll(verbs+gid("3", own, "RoCE v2", "net1"), "mlx5_0", "mlx5_4"), marker, 195, "mlx5_0", false, ""},
		{"named anew, with the address of another", strings.ReplaceAll(verbs+gid("3", other, "RoCE v2", "net1"), "mlx5_0", "mlx5_4"), marker, 195, "mlx5_0", false,
			strings.ReplaceAll(noGID, "mlx5_0", "mlx5_4")},
		{"its name is another function's", strings.ReplaceAll(verbs+gid("3", own, "RoCE v2", "net1"), "91:00.0", "92:00.0"), marker, 195, "mlx5_0", false,
			"device nic0 of claim default/nic: RDMA device mlx5_0 is not in the pod's network namespace"},
		{"without its file", verbs + gid("3", own, "RoCE v2", "net1"), marker, 192, "mlx5_0", false,
			"the container has no file /dev/infiniband/uverbs3 of RDMA device mlx5_0: the node's plumbline-agent was not asked as it was created"},
		{"a container without the device", "class/net/lo/ifindex = 1", "HOME=/", 195, "mlx5_0", false, ""},
		{"without the module of verbs", "class/infiniband/mlx5_0/node_type = 1: CA\n", marker, 0, "mlx5_0", false, ""},
		{"software that nobody made again", "class/net/lo/ifindex = 1", marker, 195, "", false, ""},
		{"software made again, with its GID", verbs + gid("1", own, "RoCE v2", "net1"), marker, 195, "", true, ""},
		{"software made again, without its GID", verbs + gid("1", other, "RoCE v2", "net1"), marker, 195, "", true, noGID},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := Want{Claim: "default/nic", Device: "nic0", NIC: nic, RDMA: &RDMA{Device: test.device, Marker: marker}}
			if test.device != "" {
				want.RDMA.Function = "0000:91:00.0"
			}
			o := host(50 * time.Millisecond)
			o.kernel.sys = func(int) (fs.FS, func(), error) { return hosttest.Tree(t, test.sys), func() {}, nil }
			o.kernel.on = func(int, int) ([]rdma.Device, error) {
				if test.on {
					return []rdma.Device{{Name: "mlx5_0", Kind: "rxe"}}, nil
				}
				return nil, nil
			}
			in := strings.Replace(stateOf(pid), `"bundle":""`, `"bundle":"`+bundleOf(t, test.env, test.minor)+`"`, 1)
			err := Run(t.Context(), argsOf(t, want), strings.NewReader(in), o)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "waited") == strings.Contains(test.name, "without its file") {
				t.Errorf("got %v: only what the kernel or the agent may still do is waited for", err)
			}
		})
	}
	// A host that cannot show what the pod sees.
	o := host(50 * time.Millisecond)
	o.kernel.sys = func(int) (fs.FS, func(), error) { return nil, nil, errors.ErrUnsupported }
	want := Want{Claim: "default/nic", Device: "nic0", NIC: nic, RDMA: &RDMA{Device: "mlx5_0", Marker: marker}}
	in := strings.Replace(stateOf(pid), `"bundle":""`, `"bundle":"`+bundleOf(t, marker, 195)+`"`, 1)
	if err := Run(t.Context(), argsOf(t, want), strings.NewReader(in), o); err != nil {
		t.Errorf("on a host that cannot tell: %v", err)
	}
}

// A GID comes some time after its address, and is waited for.
func TestContainerWhoseGIDIsOnItsWay(t *testing.T) {
	pod, elsewhere := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	hosttest.Veth(t, pod, "net1", elsewhere, "peer")
	pod.Run(t, "ip address add 10.1.0.2/24 dev net1")
	want := Want{Claim: "default/nic", Device: "nic0", NIC: virtual(t, pod, "net1"), RDMA: &RDMA{Device: "mlx5_0", Marker: "M=1"}}
	o := host(time.Minute)
	looks := 0
	o.kernel.sys = func(int) (fs.FS, func(), error) {
		if looks++; looks < 3 {
			return hosttest.Tree(t, verbs+gid("0", linkLocal, "RoCE v2", "net1")), func() {}, nil
		}
		return hosttest.Tree(t, verbs+gid("0", linkLocal, "RoCE v2", "net1")+gid("1", own, "RoCE v2", "net1")), func() {}, nil
	}
	in := strings.Replace(stateOf(container(t, pod, "sleep", "60")), `"bundle":""`, `"bundle":"`+bundleOf(t, "M=1", 195)+`"`, 1)
	if err := Run(t.Context(), argsOf(t, want), strings.NewReader(in), o); err != nil || looks != 3 {
		t.Errorf("%v after %d looks, want 3", err, looks)
	}
}

// counted counts how often a file is opened.
type counted struct {
	fs.ReadLinkFS
	file  string
	times *int
}

func (c counted) Open(name string) (fs.File, error) {
	if name == c.file {
		*c.times++
	}
	return c.ReadLinkFS.Open(name)
}

// The devices that a pod sees, hundreds where there are virtual functions, are read once,
// however many of them a container has.
func TestRDMADevicesAreReadOnce(t *testing.T) {
	pod, elsewhere := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	hosttest.Veth(t, pod, "net1", elsewhere, "peer")
	pod.Run(t, "ip address add 10.1.0.2/24 dev net1")
	want := Want{Claim: "default/nic", Device: "nic0", NIC: virtual(t, pod, "net1"), RDMA: &RDMA{Device: "mlx5_0", Marker: "M=1"}}
	o, times := host(50*time.Millisecond), 0
	o.kernel.sys = func(int) (fs.FS, func(), error) {
		tree := hosttest.Tree(t, verbs+gid("1", own, "RoCE v2", "net1"))
		return counted{tree, "devices/pci0000:8c/0000:91:00.0/infiniband/mlx5_0/node_type", &times}, func() {}, nil
	}
	in := strings.Replace(stateOf(container(t, pod, "sleep", "60")), `"bundle":""`, `"bundle":"`+bundleOf(t, "M=1", 195)+`"`, 1)
	if err := Run(t.Context(), argsOf(t, want, want, want), strings.NewReader(in), o); err != nil || times != 1 {
		t.Errorf("%v, read %d times, want once", err, times)
	}
}
