// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
	"plumbline.dev/plumbline/internal/verify/nearest"
)

// An interface that is no PCI function is known by its address, since its name is
// anybody's; by its name only where nobody gives the address.
func TestVirtualInterface(t *testing.T) {
	const claimed, other = "02:00:00:00:00:01", "02:00:00:00:00:02"
	id := strings.Repeat("a", 64)
	for _, test := range []struct {
		name  string
		mac   string
		there []collect.Interface
		want  Status
		says  string
	}{
		{"as claimed", claimed, []collect.Interface{{Name: "net0", MAC: claimed}}, True, ""},
		{"addresses in capitals", strings.ToUpper("02:aa:00:00:00:01"), []collect.Interface{{Name: "net0", MAC: "02:aa:00:00:00:01"}}, True, ""},
		{"renamed by its pod", claimed, []collect.Interface{{Name: "mine0", MAC: claimed}}, True, ""},
		{"another one of its name", claimed, []collect.Interface{{Name: "net0", MAC: other}}, False, "net0 in the pod has the address " + other + ", the claimed one " + claimed},
		{"another one of its name beside it", claimed, []collect.Interface{{Name: "net0", MAC: other}, {Name: "old0", MAC: claimed}}, False, "net0 in the pod has the address"},
		{"gone", claimed, []collect.Interface{{Name: "eth0", MAC: other}}, False, "net0 is not in the pod, nor any other NIC"},
		{"a driver that gives no address", "", []collect.Interface{{Name: "net0", MAC: other}}, True, ""},
		{"a kernel that gives no address", claimed, []collect.Interface{{Name: "net0"}}, True, ""},
		{"no address, another name", "", []collect.Interface{{Name: "mine0", MAC: claimed}}, False, "net0 is not in the pod"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := expect.Device{Request: "nic", Driver: slicecodec.DriverNet, Name: "nic7", Kind: expect.NIC, Interface: "net0", MAC: test.mac}
			expected := expect.Pod{
				Name: "p", Claims: []expect.Claim{{Name: "c", UID: "u", Devices: []expect.Device{d}}},
				Containers: []expect.Container{{Name: "main", ID: id, Uses: map[string][]string{"c": {""}}}},
			}
			found := collect.Pod{Network: collect.Network{Interfaces: test.there}, Containers: []collect.Container{{Name: "main", ID: id}}}
			got := Pod(nearest.New(machine(t)), expected, found)
			if got.Status != test.want || !strings.Contains(got.Message, test.says) {
				t.Errorf("%s, want %s and %q: %s", got.Status, test.want, test.says, got.Message)
			}
			if len(got.Pairs) > 0 {
				t.Errorf("pairs %v of what has no place", got.Pairs)
			}
			listed := len(got.Components) > 0 && got.Components[0].Request == "nic"
			if listed != (test.want == True) {
				t.Errorf("components %+v", got.Components)
			}
		})
	}
}
