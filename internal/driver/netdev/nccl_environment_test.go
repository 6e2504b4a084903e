// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// gidTable is a port's table in a tree of /sys.
func gidTable(device string, gids ...string) map[string]string {
	files := map[string]string{}
	dir := "devices/pci0000:90/" + device + "/ports/1/"
	files[dir+"state"] = "4: ACTIVE\n"
	for i, gid := range gids {
		at, netdev, _ := strings.Cut(gid, " on ")
		kind := "RoCE v2"
		if i%2 == 0 {
			kind = "IB/RoCE v1" // as the kernel lists them, by turns
		}
		files[fmt.Sprintf("%sgids/%d", dir, i)] = at + "\n"
		files[fmt.Sprintf("%sgid_attrs/types/%d", dir, i)] = kind + "\n"
		files[fmt.Sprintf("%sgid_attrs/ndevs/%d", dir, i)] = netdev + "\n"
	}
	return files
}

// sysOf is a pod's /sys with RDMA devices.
func sysOf(t *testing.T, devices map[string][]string) fs.FS {
	t.Helper()
	root := t.TempDir()
	for device, gids := range devices {
		for name, content := range gidTable(device, gids...) {
			file := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		class := filepath.Join(root, "class/infiniband")
		if err := os.MkdirAll(class, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../../devices/pci0000:90/"+device, filepath.Join(class, device)); err != nil {
			t.Fatal(err)
		}
	}
	return os.DirFS(root)
}

const (
	linkLocal = "fe80:0000:0000:0000:0000:00ff:fe00:0000 on dranet0"
	ofIPv4    = "0000:0000:0000:0000:0000:ffff:0a00:0002 on dranet0"
	ofOther   = "0000:0000:0000:0000:0000:ffff:0a00:0002 on eth0"
)

// A container that asks for it is told of its NIC as it is in the pod, and what is read
// there is in the status that metadata is made of.
func TestEnvironmentInThePod(t *testing.T) {
	l := newLab(t)
	l.driver.sys = hosttest.Tree(t, rdmaFiles)
	pod := hosttest.NewNamespace(t)
	m := l.machine(t)
	roce := "Ethernet"
	m.NICs[0].RDMA = &model.RDMADevice{Name: "mlx5_0", LinkLayer: &roce}
	l.driver.rdma = newFakeRDMA(t, rdmaState{Mode: rdma.Shared, Devices: []rdmaStateDevice{{Name: "mlx5_0", Namespace: inode(l.host.Fd())}}})
	sys := sysOf(t, map[string][]string{"mlx5_0": {linkLocal, linkLocal, ofIPv4, ofIPv4}})
	l.driver.podSys = func(int) (fs.FS, func(), error) { return sys, func() {}, nil }
	text := `{"interface": {"name": "dranet0", "addresses": ["10.0.0.2/24"]}, "environment": "nccl"}`
	r, err := l.driver.Plan(claim(text, "nic0"), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	status := l.attach(t, r, pod)
	want := map[string]model.Attribute{
		"dra.net/rdmaDevice": model.TextAttribute("mlx5_0"), "plumbline.dev/gid": model.TextAttribute("::ffff:10.0.0.2"), "plumbline.dev/gidIndex": model.NumberAttribute(3),
	}
	if diff := cmp.Diff(want, status[0].Attributes); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	var notes []driver.Note
	env := func() string {
		t.Helper()
		e, err := l.driver.ContainerEdits(t.Context(), []driver.Record{r}, pod.Path())
		if err != nil {
			t.Fatal(err)
		}
		notes = e.Notes
		if len(e.Files) > 0 {
			t.Errorf("files %v of a NIC that is on no PCI bus", e.Files)
		}
		return strings.Join(e.Env, " ")
	}
	const others = "NCCL_IB_HCA==mlx5_0:1 NCCL_SOCKET_IFNAME==dranet0 UCX_NET_DEVICES=mlx5_0:1"
	if got, want := env(), strings.Replace(others, " ", " NCCL_IB_GID_INDEX=3 ", 1); got != want {
		t.Errorf("environment %s\nwant        %s", got, want)
	}
	if len(notes) > 0 {
		t.Errorf("notes %v although nothing is left out", notes)
	}
	// The address is another interface's, or there is no GID of it.
	for _, gids := range [][]string{{ofOther, ofOther}, {linkLocal, linkLocal}, {ofIPv4}} {
		sys = sysOf(t, map[string][]string{"mlx5_0": gids})
		if got := env(); got != others {
			t.Errorf("GIDs %v: environment %s\nwant        %s", gids, got, others)
		}
		want := []driver.Note{{Env: "NCCL_IB_GID_INDEX", Text: "NCCL_IB_GID_INDEX is left out, and NCCL (2.21 and newer) looks for one itself: " +
			"port mlx5_0:1 has no RoCE v2 GID of an address of its interface"}}
		if diff := cmp.Diff(want, notes); diff != "" {
			t.Errorf("GIDs %v: notes (-want +got):\n%s", gids, diff)
		}
	}
	status = l.attach(t, r, pod)
	if a := status[0].Attributes; a["plumbline.dev/gid"] != (model.Attribute{}) || a["plumbline.dev/gidIndex"] != (model.Attribute{}) {
		t.Errorf("a GID that is not there is told: %v", a)
	}
	// A port that nobody can name is no guess.
	sys = sysOf(t, nil)
	if _, err := l.driver.ContainerEdits(t.Context(), []driver.Record{r}, pod.Path()); err == nil || !strings.Contains(err.Error(), "RDMA device mlx5_0: the pod's /sys names no port of it") {
		t.Errorf("error %v", err)
	}
}

// A pod may make any number of entries, and the agent does not keep them all.
func TestViewOfACrowdedPod(t *testing.T) {
	l := newLab(t)
	pod := hosttest.NewNamespace(t)
	var routes strings.Builder
	for i := range rtnl.PodEntries + 1 {
		fmt.Fprintf(&routes, "ip route add blackhole 10.1.%d.%d\n", i>>8, i&255)
	}
	pod.Run(t, routes.String())
	v := &rdmaView{Driver: l.driver, path: pod.Path()}
	defer v.close()
	if err := v.open(); err != nil {
		t.Fatal(err)
	}
	if _, err := v.conn.Routes(0); !errors.Is(err, rtnl.ErrTooMany) {
		t.Errorf("got %v, want a refusal", err)
	}
}

// Without the parameter a container is told nothing.
func TestNoEnvironment(t *testing.T) {
	l := newLab(t)
	pod := hosttest.NewNamespace(t)
	for _, text := range []string{`{}`, `{"environment": "none"}`} {
		r, err := l.driver.Plan(claim(text, "nic0"), l.machine(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		e, err := l.driver.ContainerEdits(t.Context(), []driver.Record{r}, pod.Path())
		if err != nil || len(e.Env)+len(e.Files) > 0 {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
}

// The file names the container's NICs and the GPUs of their claims, and is another one
// for other devices.
func TestTopologyFile(t *testing.T) {
	nic, gpu, other := mustPCI(t, "0000:91:00.0"), mustPCI(t, "0000:8f:00.0"), mustPCI(t, "0000:92:00.0")
	parts := model.Machine{Roots: []model.PCIRoot{{Name: "pci0000:8c", Published: true}}}
	for _, f := range []struct {
		address model.PCIAddress
		class   uint32
	}{{nic, 0x020000}, {gpu, 0x030200}, {other, 0x030200}} {
		parts.Functions = append(parts.Functions, model.PCIFunction{Address: f.address, Root: "pci0000:8c", Class: f.class})
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	v := &rdmaView{Driver: &Driver{machine: func() *model.Machine { return m }}}
	files := v.topology([]model.PCIAddress{nic, gpu, nic})
	if len(files) != 1 || files[0].Env != "NCCL_TOPO_FILE" || files[0].Destination != "/run/plumbline/nccl-topology.xml" {
		t.Fatalf("files %+v", files)
	}
	for _, a := range []model.PCIAddress{nic, gpu} {
		if n := strings.Count(string(files[0].Content), `busid="`+a.String()+`"`); n != 1 {
			t.Errorf("%s is there %d times:\n%s", a, n, files[0].Content)
		}
	}
	if strings.Contains(string(files[0].Content), other.String()) {
		t.Errorf("GPU %s is of no claim of the container:\n%s", other, files[0].Content)
	}
	again, alone := v.topology([]model.PCIAddress{gpu, nic}), v.topology([]model.PCIAddress{nic})
	if again[0].Name != files[0].Name || alone[0].Name == files[0].Name {
		t.Errorf("named %s, %s again and %s with the NIC alone", files[0].Name, again[0].Name, alone[0].Name)
	}
	unknown := []model.PCIAddress{mustPCI(t, "0000:fe:00.0")}
	if got := slices.Concat(v.topology(nil), v.topology(unknown), (&rdmaView{Driver: &Driver{}}).topology([]model.PCIAddress{nic})); len(got) > 0 {
		t.Errorf("a file of nothing: %+v", got)
	}
}
