// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/model"
)

// Each example of the documentation is applied to a NIC in a namespace and
// undone again: attached, attached once more without effect, and the host is
// what it was.
func TestDocumentedExamples(t *testing.T) {
	for i, example := range docstest.Examples(t, "network.md") {
		if testing.Short() && i%5 > 0 && !strings.Contains(example.Text, "vrf:") {
			continue // a virtual machine is slow, and is asked for what this kernel lacks
		}
		t.Run(example.Name, func(t *testing.T) {
			t.Parallel()
			text, err := yaml.YAMLToJSON([]byte(example.Text))
			if err != nil {
				t.Fatal(err)
			}
			l := newLab(t)
			l.host.Run(t, busy)
			if slices.Contains(example.Marks, "pool") {
				l.driver.pools = fabric(t)
			}
			c := claim(string(text), "nic0")
			if slices.Contains(example.Marks, "class") {
				l.refuses(t, c)
				c.Devices[0].Configs[0].Source = driver.SourceClass
			}
			for _, mark := range example.Marks {
				if mark == "refused" || strings.HasPrefix(mark, "needs-") {
					l.refuses(t, c)
					return
				}
			}
			if slices.Contains(example.Marks, "shared") {
				l.sharedExample(t, string(text))
				return
			}
			if strings.Contains(example.Text, "vrf:") {
				hosttest.NeedLink(t, "vrf")
			}
			if strings.Contains(example.Text, "IPv4MaxSize") && !l.sizesOfIPv4(t) {
				t.Skip("this kernel has no limits of IPv4 offload: they came with Linux 6.3")
			}
			if strings.Contains(example.Text, "dhcp: true") || strings.Contains(example.Text, "addressing: dhcp") {
				l.serveDHCP(t)
			}
			l.cycle(t, c, func(pod *hosttest.Namespace, r driver.Record, s []driver.DeviceStatus) {
				inside := look(t, pod)
				again := l.attach(t, r, pod)
				expect(t, "the pod after attaching again", inside, pod)
				if len(s) != 1 || len(again) != 1 || !slices.Equal(s[0].IPs, again[0].IPs) {
					t.Errorf("status %+v, then %+v", s, again)
				}
			})
		})
	}
}

// sharedExample applies an example to a NIC that is shared, twice, and undoes it.
func (l *lab) sharedExample(t *testing.T, parameters string) {
	t.Helper()
	asked, err := v1alpha1.DecodeNetworkConfig([]byte(parameters))
	if err != nil || asked.Interface.Type == nil {
		t.Fatalf("%v: want an interface.type", err)
	}
	offer := model.Share{Type: *asked.Interface.Type, Slots: 1}
	hosttest.NeedLink(t, offer.Type)
	if offer.Type == model.ShareVLAN {
		offer.FirstVLAN, offer.LastVLAN = 1, 4094
	}
	before := look(t, l.host)
	pod := hosttest.NewNamespace(t)
	pod.Run(t, quiet)
	empty := look(t, pod)
	r := l.mustPlanShare(t, offer, shareOf("a", parameters, "nic0"))
	l.attach(t, r, pod)
	inside := look(t, pod)
	l.attach(t, r, pod)
	expect(t, "the pod after attaching again", inside, pod)
	if err := l.driver.Detach(t.Context(), r, pod.Path()); err != nil {
		t.Fatal(err)
	}
	expect(t, "the pod", empty, pod)
	expect(t, "the host", before, l.host)
}

// refuses wants an example refused that this NIC, or this version, cannot do.
func (l *lab) refuses(t *testing.T, c driver.Claim) {
	t.Helper()
	before := look(t, l.host)
	_, err := l.driver.Plan(c, l.machine(t), nil)
	if err == nil {
		t.Error("it was planned")
	}
	t.Log(err)
	expect(t, "the host", before, l.host)
}
