// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/ethtool"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/model"
)

// physicalNIC names an interface of a virtual machine made for this test: the
// test takes it away from the machine it runs on.
var physicalNIC = flag.String("physical-nic", "", "interface of a PCI NIC that the test may move, reconfigure and lose")

// TestPhysicalNIC is what no stand-in shows: the kernel returns a PCI NIC from
// a namespace that ends, and under a name of its own when the pod's is taken.
func TestPhysicalNIC(t *testing.T) {
	if *physicalNIC == "" {
		t.Skip("needs a virtual machine's PCI NIC, named by -physical-nic")
	}
	d, err := New(Options{Host: netns.Self, BootID: "boot", Sys: os.DirFS("/sys")})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	nic, m := machineOf(t, d, *physicalNIC)
	r, err := d.Plan(claim(`{"interface": {"name": "net1", "mtu": 1400}}`, "pci-"+dashes(nic.PCI.String())), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := physicalState(t, d, nic)
	t.Logf("before: %s", before)
	for name, end := range map[string]func(t *testing.T, pod *hosttest.Namespace){
		"detached": func(*testing.T, *hosttest.Namespace) {},
		"namespace ends": func(_ *testing.T, pod *hosttest.Namespace) {
			pod.Close()
		},
		"renamed, then the namespace ends": func(t *testing.T, pod *hosttest.Namespace) {
			rename(t, pod, "lo2")
			pod.Close()
		},
		"a taken name, then the namespace ends": func(t *testing.T, pod *hosttest.Namespace) {
			rename(t, pod, "taken")
			pod.Close()
		},
		"another MAC and another name": func(t *testing.T, pod *hosttest.Namespace) {
			conn, link := inside(t, pod)
			defer conn.Close()
			down := false
			change := rtnl.Change{Up: &down, Settings: rtnl.Settings{MAC: ptr("02:00:00:00:77:77"), Alias: ptr("mine")}}
			if err := conn.Set(link.Index, change); err != nil {
				t.Error(err)
			}
			if err := conn.AddAltName(link.Index, "taken"); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := hosttest.NewNamespace(t)
			path := pod.Path()
			s, err := d.Attach(t.Context(), r, path)
			if err != nil {
				t.Fatal(err)
			}
			want := driver.DeviceStatus{Device: r.Devices[0].Device, InterfaceName: "net1", HardwareAddress: *nic.Interface.MAC, IPs: s[0].IPs}
			if diff := cmp.Diff([]driver.DeviceStatus{want}, s); diff != "" || len(s[0].IPs) == 0 {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			end(t, pod)
			for range 2 {
				if err := d.Detach(t.Context(), r, path); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, physicalState(t, d, nic)); diff != "" {
					t.Errorf("the host (-before +after):\n%s", diff)
				}
			}
		})
	}
}

func machineOf(t *testing.T, d *Driver, name string) (model.NIC, *model.Machine) {
	t.Helper()
	links, err := d.host.Links()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(links, func(l rtnl.Link) bool { return l.Name == name })
	if i < 0 || links[i].Bus == nil || *links[i].Bus != "pci" {
		t.Fatalf("%s is no PCI NIC here", name)
	}
	l := links[i]
	address := mustPCI(t, *l.BusAddress)
	nic := model.NIC{PCI: &address, Interface: &model.Interface{Name: l.Name, MAC: l.MAC, PermanentMAC: l.PermanentMAC}}
	m, err := model.New(model.Machine{
		Roots:     []model.PCIRoot{{Name: "pci0000:00"}},
		Functions: []model.PCIFunction{{Address: address, Root: "pci0000:00", Class: 0x020000}},
		NICs:      []model.NIC{nic},
	})
	if err != nil {
		t.Fatal(err)
	}
	return nic, m
}

func dashes(address string) string {
	out := []byte(address)
	for i, c := range out {
		if c == ':' || c == '.' {
			out[i] = '-'
		}
	}
	return string(out)
}

// What a pod sets of a real device is the host's again. Its link negotiates
// meanwhile, of which nobody can say what it was.
func TestPhysicalSettings(t *testing.T) {
	if *physicalNIC == "" {
		t.Skip("needs a virtual machine's PCI NIC, named by -physical-nic")
	}
	d, err := New(Options{Host: netns.Self, BootID: "boot", Sys: os.DirFS("/sys")})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	nic, m := machineOf(t, d, *physicalNIC)
	r, err := d.Plan(claim("", "pci-"+dashes(nic.PCI.String())), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := physicalState(t, d, nic)
	t.Logf("before: %s", before)
	pod := hosttest.NewNamespace(t)
	s, err := d.Attach(t.Context(), r, pod.Path())
	if err != nil {
		t.Fatal(err)
	}
	// Of the driver e1000e (drivers/net/ethernet/intel/e1000e/ethtool.c).
	for _, one := range []ethtool.Settings{
		{"rings.rx": "128", "rings.tx": "512"}, {"coalesce.rx-usecs": "100"}, {"pause.autoneg": "0", "pause.rx": "0", "pause.tx": "0"},
		{"link.autoneg": "0", "link.speed": "100", "link.duplex": "1"}, {"port.mdix": "1"},
	} {
		ethtoolIn(t, pod, s[0].InterfaceName, one)
	}
	if err := d.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Unstage(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, physicalState(t, d, nic)); diff != "" {
			t.Errorf("the host (-before +after):\n%s", diff)
		}
	}
	list, err := d.host.Ethtool.Settings(*physicalNIC)
	if err != nil || list["pause.autoneg"] != "1" || list["link.autoneg"] != "1" {
		t.Errorf("%v, %v, want a link and pauses that are negotiated", list, err)
	}
}

// What a claim asks of a real driver's private flags is set for the pod and
// restored after it, or refused at its field with nothing changed: of those that
// QEMU has, an 82574L has a flag that its driver sets for later chips alone
// (drivers/net/ethernet/intel/e1000e/ethtool.c, s0ix-enabled), and an 82576 one
// that it sets (igb, legacy-rx).
func TestPhysicalPrivateFlags(t *testing.T) {
	if *physicalNIC == "" {
		t.Skip("needs a virtual machine's PCI NIC, named by -physical-nic")
	}
	d, err := New(Options{Host: netns.Self, BootID: "boot", Sys: os.DirFS("/sys")})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	nic, m := machineOf(t, d, *physicalNIC)
	before := physicalState(t, d, nic)
	flags, err := d.host.Ethtool.PrivateFlags(*physicalNIC)
	if err != nil || len(flags) == 0 {
		t.Fatalf("%s has private flags %v, %v: want one at least", *physicalNIC, flags, err)
	}
	for flag, was := range flags {
		for _, want := range []bool{was, !was} {
			parameters := fmt.Sprintf(`{"interface": {"name": "net1"}, "ethtool": {"privateFlags": {%q: %t}}}`, flag, want)
			r, err := d.Plan(claim(parameters, "pci-"+dashes(nic.PCI.String())), m, nil)
			if err != nil {
				t.Fatal(err)
			}
			staged, err := d.Stage(t.Context(), r)
			switch {
			case err == nil:
				flagInPod(t, d, staged, flag, want)
			case want == was:
				t.Errorf("%s: %t is what it was: %v", flag, want, err)
			case !strings.Contains(err.Error(), "ethtool.privateFlags: "):
				t.Errorf("%s: %t: %v: want the field named", flag, want, err)
			default:
				t.Logf("%s: %t is refused: %v", flag, want, err)
			}
			if diff := cmp.Diff(before, physicalState(t, d, nic)); diff != "" {
				t.Errorf("%s: %t, and the host (-before +after):\n%s", flag, want, diff)
			}
		}
	}
}

// flagInPod looks at a flag in a pod, which then sets it to the contrary where
// it can, and gives the NIC back.
func flagInPod(t *testing.T, d *Driver, r driver.Record, flag string, want bool) {
	t.Helper()
	pod := hosttest.NewNamespace(t)
	if _, err := d.Attach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	tool, err := ethtool.Dial(pod.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	flags, err := tool.PrivateFlags("net1")
	if err != nil || flags[flag] != want {
		t.Errorf("the pod has private flags %v, %v, want %s: %t", flags, err, flag, want)
	}
	if err := tool.SetPrivateFlags("net1", map[string]bool{flag: !want}); err != nil {
		t.Logf("the pod cannot set %s: %v", flag, err)
	}
	if err := d.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	if err := d.Unstage(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// physicalState is the host's state without the ifindex, and without what the
// driver tells of the link as it is.
func physicalState(t *testing.T, d *Driver, nic model.NIC) string {
	t.Helper()
	seen, err := readOne(d, nslink.IdentityOf(nic, nil).Alone(true))
	if err != nil {
		t.Fatal(err)
	}
	seen.State.Index = 0
	maps.DeleteFunc(seen.State.Ethtool, func(key, _ string) bool {
		group, _, _ := strings.Cut(key, ".")
		return slices.Contains([]string{"link", "port", "pause", "eee"}, group)
	})
	text, err := json.MarshalIndent(seen.State, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func inside(t *testing.T, pod *hosttest.Namespace) (*rtnl.Conn, rtnl.Link) {
	t.Helper()
	conn, err := rtnl.Dial(pod.Fd())
	if err != nil {
		t.Fatal(err)
	}
	links, err := conn.Links()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(links, func(l rtnl.Link) bool { return l.Bus != nil })
	if i < 0 {
		t.Fatal("no PCI NIC is in the pod")
	}
	return conn, links[i]
}

func rename(t *testing.T, pod *hosttest.Namespace, name string) {
	t.Helper()
	conn, link := inside(t, pod)
	defer conn.Close()
	down := false
	if err := conn.Set(link.Index, rtnl.Change{Up: &down}); err != nil {
		t.Error(err)
	}
	if err := conn.Set(link.Index, rtnl.Change{Name: &name}); err != nil {
		t.Error(err)
	}
}
