// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package vm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"plumbline.dev/plumbline/lab/vm"
	"plumbline.dev/plumbline/lab/vm/shape"
)

// TestGuestIsTheMachine boots the machines and compares their sysfs with the
// machine files.
func TestGuestIsTheMachine(t *testing.T) {
	c := tools(t)
	for name := range strings.SplitSeq(*machines, ",") {
		t.Run(name, func(t *testing.T) {
			c := c
			c.Shape = load(t, name)
			v := boot(t, c)
			compareDevices(t, v, c.Shape)
			compareNodes(t, v, c.Shape)
			t.Run("RDMA device returns with its NIC", func(t *testing.T) { rdmaReturns(t, v, c.Shape) })
			t.Run("fabric joins pods", func(t *testing.T) { fabricJoins(t, v, c.Shape) })
		})
	}
}

// compareDevices checks address, root, NUMA node and kind of every device.
func compareDevices(t *testing.T, v *vm.VM, s *vm.Shape) {
	t.Helper()
	nics := vm.NICs(s)
	for _, d := range s.Devices {
		at := "/sys/bus/pci/devices/" + d.Address.String()
		got := run(t, v, fmt.Sprintf("cat %s/class %s/numa_node; readlink -f %s; ls %s/net %s/drm 2>/dev/null", at, at, at, at, at))
		t.Logf("%s: %s", d, strings.ReplaceAll(got, "\n", " "))
		lines := strings.Split(got, "\n")
		if len(lines) < 5 {
			t.Errorf("%s: got %q", d, got)
			continue
		}
		class := "0x038000"
		if d.Kind == shape.NIC {
			class = "0x020000"
			if n := nics[slices.IndexFunc(nics, func(n vm.NIC) bool { return n.PCI == d.Address.String() })]; !slices.Contains(lines, n.Name) {
				t.Errorf("%s: no interface %s in %q", d, n.Name, got)
			}
		} else if !strings.Contains(got, "card") {
			t.Errorf("%s: no device file in %q", d, got)
		}
		if lines[0] != class {
			t.Errorf("%s: class %s, want %s", d, lines[0], class)
		}
		if d.Node != nil && lines[1] != fmt.Sprint(*d.Node) {
			t.Errorf("%s: NUMA node %s, want %d", d, lines[1], *d.Node)
		}
		if !strings.HasPrefix(lines[2], "/sys/devices/"+d.Root+"/") {
			t.Errorf("%s: at %s, want root %s", d, lines[2], d.Root)
		}
	}
}

// compareNodes checks NUMA nodes, their distances, and RDMA devices.
func compareNodes(t *testing.T, v *vm.VM, s *vm.Shape) {
	t.Helper()
	for i := range s.Nodes {
		var want []string
		for j := range s.Nodes {
			want = append(want, fmt.Sprint(s.Distance(i, j)))
		}
		if got := run(t, v, fmt.Sprintf("cat /sys/devices/system/node/node%d/distance", i)); got != strings.Join(want, " ") {
			t.Errorf("node %d: distances %q, want %q", i, got, want)
		}
	}
	for _, n := range vm.NICs(s) {
		if n.RDMA != "" {
			if got := run(t, v, "cat /sys/class/infiniband/"+n.RDMA+"/parent"); got != n.Name {
				t.Errorf("RDMA device %s sits on %q, want %s", n.RDMA, got, n.Name)
			}
		}
	}
}

// elsewhere is a shell function that runs a command beside a namespace of its
// own, whose process is $p.
const elsewhere = `namespace() { unshare -n sleep 60 >/dev/null 2>&1 & p=$!
until [ "$(readlink /proc/$p/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done; }
`

// rdmaReturns moves a NIC into a namespace and lets the namespace end.
func rdmaReturns(t *testing.T, v *vm.VM, s *vm.Shape) {
	for _, n := range vm.NICs(s) {
		if n.RDMA == "" {
			continue
		}
		got := run(t, v, elsewhere+fmt.Sprintf(`namespace; ip link set %s netns $p
i=0; while [ -e /sys/class/infiniband/%s ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done
ls /sys/class/infiniband/%s >/dev/null 2>&1 && echo stayed; kill $p
i=0; until [ -e /sys/class/infiniband/%s ] || [ $i -ge 200 ]; do sleep 0.1; i=$((i+1)); done
cat /sys/class/infiniband/%s/parent; ls /sys/bus/pci/devices/%s/net`, n.Name, n.RDMA, n.RDMA, n.RDMA, n.RDMA, n.PCI))
		if lines := strings.Fields(got); len(lines) != 2 || lines[0] != lines[1] {
			t.Errorf("got %q, want the NIC's name twice", got)
		}
		return
	}
	t.Skip("the machine has no RDMA device")
}

// fabricJoins sends packets between two NICs in two namespaces, the first ones
// perhaps before their links are up.
func fabricJoins(t *testing.T, v *vm.VM, s *vm.Shape) {
	nics := vm.NICs(s)
	if len(nics) < 2 {
		t.Skip("the machine has one NIC")
	}
	got := run(t, v, elsewhere+fmt.Sprintf(`
join() { namespace; ip link set $1 netns $p; nsenter -t $p -n ip addr add $2/24 dev $1; nsenter -t $p -n ip link set $1 up; }
join %s 10.99.0.1; a=$p; join %s 10.99.0.2; b=$p
nsenter -t $b -n ping -q -c 9 -w 20 10.99.0.1; kill $a $b`, nics[len(nics)-2].Name, nics[len(nics)-1].Name))
	if strings.Contains(got, " 0 packets received") || !strings.Contains(got, "packets received") {
		t.Errorf("got %s", got)
	}
}
