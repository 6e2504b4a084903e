// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/host/hosttest"
)

// A NIC that is renamed after the dump has no files by its old name, which may have
// become an alternative name: its settings are not cached.
func TestSettingsOfARenamedNIC(t *testing.T) {
	l := newLab(t)
	nics := l.machine(t).NICs
	snapshot, err := l.driver.host.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	l.host.Run(t, `
		ip link set nic0 name other
		ip link property add dev other altname nic0`)
	if seen, err := snapshot.Read(nslink.IdentityOf(nics[0], nil)); err == nil && len(seen.State.Sysctls) > 0 {
		t.Errorf("the old name has settings: %v", seen.State.Sysctls)
	}
	seen, err := readOne(l.driver, nslink.IdentityOf(nics[1], nil))
	if err != nil {
		t.Fatal(err)
	}
	want, err := l.newDriver(t).host.Sysctl.Snapshot("nic1", "", nil)
	if err != nil || len(want) == 0 || !maps.Equal(seen.State.Sysctls, want) {
		t.Errorf("the settings of nic1 are %v, want %v, %v", seen.State.Sysctls, want, err)
	}
}

// A pod has one value of a sysctl, whoever sets it.
func TestSysctlsOfOnePodAgree(t *testing.T) {
	two := claim("", "pci-0000-91-00-0", "pci-0000-93-00-0")
	for i, value := range []string{"1", "2"} {
		two.Devices[i].Configs = []driver.Config{{Source: "claim", Raw: []byte(`{"sysctls": {"net.ipv4.tcp_ecn": "` + value + `"}}`)}}
	}
	_, err := planIn(t, two)
	if want := `device pci-0000-93-00-0: sysctls[net.ipv4.tcp_ecn]: "2": the pod has "1" already, for device pci-0000-91-00-0: want one value of both`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v\nwant %s", err, want)
	}
	first := claim(`{"sysctls": {"net.ipv4.ip_forward": "1"}}`, "pci-0000-91-00-0")
	first.Pods = []driver.PodRef{{UID: "p", Name: "p"}}
	held, err := planIn(t, first)
	if err != nil {
		t.Fatal(err)
	}
	held.Claim = driver.ClaimRef{UID: "other", Namespace: "default", Name: "other"}
	for value, want := range map[string]string{
		"1": "",
		"0": `sysctls[net.ipv4.conf.all.forwarding]: "0": the pod has "1" already, from claim default/other: want one value of both`,
	} {
		second := claim(`{"sysctls": {"net.ipv4.conf.all.forwarding": "`+value+`"}}`, "pci-0000-93-00-0")
		second.Pods = first.Pods
		_, err := planIn(t, second, held)
		if (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error %v\nwant %s", err, want)
		}
	}
}

// A sysctl of all interfaces does not overwrite that of another NIC of the claim, in
// whichever order the two are attached.
func TestSysctlOfAllComesBeforeEveryNIC(t *testing.T) {
	for _, order := range [][]string{{"nic0", "nic1"}, {"nic1", "nic0"}} {
		t.Run(strings.Join(order, " then "), func(t *testing.T) {
			l := newLab(t)
			c := claim("", order...)
			for i, d := range order {
				parameters := `{"sysctls": {"net.ipv4.ip_forward": "1"}}`
				if d == "nic0" {
					parameters = `{"interface": {"forwarding": false}}`
				}
				c.Devices[i].Configs = []driver.Config{{Source: "claim", Raw: []byte(parameters)}}
			}
			pod := hosttest.NewNamespace(t)
			pod.Run(t, quiet)
			r := l.plan(t, c)
			settings := func() string {
				return strings.Join(strings.Fields(pod.Run(t, "sysctl -n net.ipv4.conf.all.forwarding net.ipv4.conf.nic0.forwarding net.ipv4.conf.nic1.forwarding")), " ")
			}
			l.attach(t, r, pod)
			if got := settings(); got != "1 0 1" {
				t.Errorf("forwarding of all, nic0 and nic1 is %s, want 1 0 1", got)
			}
			// What the pod changes later is the pod's.
			pod.Run(t, "sysctl -q -w net.ipv4.ip_forward=0")
			l.attach(t, r, pod)
			if got := settings(); got != "0 0 0" {
				t.Errorf("attached again, forwarding of all, nic0 and nic1 is %s, want 0 0 0", got)
			}
		})
	}
}

// A sysctl that the pod has no file of keeps the NIC on the host.
func TestSysctlThatIsNotThere(t *testing.T) {
	l := newLab(t)
	r := l.plan(t, claim(`{"sysctls": {"net.ipv4.tcp_ecn": "1"}}`, "nic0"))
	plan, err := ReadPlan(r.Devices[0])
	if err != nil {
		t.Fatal(err)
	}
	// As of a version that lets claims set more than this kernel has.
	plan.Pod.PodSysctls = map[string]string{"net.core.rmem_max": "212993"}
	if r.Devices[0].Plan, err = json.Marshal(plan); err != nil {
		t.Fatal(err)
	}
	before := look(t, l.host)
	pod := hosttest.NewNamespace(t)
	if _, err := l.driver.Attach(t.Context(), r, pod.Path()); err == nil || !strings.Contains(err.Error(), `sysctls[net.core.rmem_max]: write net.core.rmem_max = "212993": `) {
		t.Errorf("error %v", err)
	}
	expect(t, "the host", before, l.host)
}

// CheckParameters and Plan have the same errors.
func TestCheckParameters(t *testing.T) {
	of := func(parameters ...string) []driver.Allocation {
		var all []driver.Allocation
		for i, text := range parameters {
			all = append(all, driver.Allocation{Request: string(rune('a' + i)), Configs: []driver.Config{{Source: "claim", Raw: []byte(text)}}})
		}
		return all
	}
	for _, c := range []struct {
		devices []driver.Allocation
		want    string
	}{
		{of(`{}`, `{}`), ""},
		{of(`{"profile": "fast"}`), ""},
		{of(`{"interface": {"gsoIPv4MaxSize": 65536, "groMaxSize": 7, "hardwareAddr": "02-00-00-00-00-01"}, "sysctls": {"net.ipv4.conf.net7.rp_filter": "1"}}`), ""},
		{of(`{"interface": {"name": "net1"}}`, `{"interface": {"name": "net2"}}`), ""},
		{of(`{"interface": {"mtu": 1}}`), "parameters: interface.mtu: Invalid value: 1: want 68-65535"},
		{of(`{"interface": {"ipam": {"pool": "fabric"}}}`), ""},
		{of(`{"interface": {"name": "eth0"}}`), `interface.name: "eth0" is in the pod already, from the cluster's network: give each its own name`},
		{of(`{"interface": {"name": "net1"}}`, `{"interface": {"name": "net1"}}`), `interface.name: "net1" is in the pod already, for request a: give each its own name`},
		{of(`{"interface": {"hardwareAddr": "02:00:00:00:00:01"}}`, `{"interface": {"hardwareAddr": "02-00-00-00-00-01"}}`), `interface.hardwareAddr: 02:00:00:00:00:01 is in the pod already, for request a: give each its own`},
		{of(`{"sysctls": {"net.ipv4.tcp_ecn": "1"}}`, `{"sysctls": {"net.ipv4.tcp_ecn": "2"}}`), `sysctls[net.ipv4.tcp_ecn]: "2": the pod has "1" already, for request a: want one value of both`},
		{of(`{"interface": {"vrf": {"name": "v", "table": 7}}}`, `{"interface": {"vrf": {"name": "w", "table": 7}}}`), `interface.vrf.table: 7: is that of VRF "w" in the pod: choose another, or leave it out` +
			`interface.vrf.table: 7: is that of VRF "v" in the pod: choose another, or leave it out`},
	} {
		got := ""
		for _, err := range CheckParameters(c.devices) {
			if err != nil {
				got += err.Error()
			}
		}
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.devices[0].Configs[0].Raw, got, c.want)
		}
	}
}
