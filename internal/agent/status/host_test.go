// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
)

func TestHostOfHeldDevices(t *testing.T) {
	s := &apiServer{}
	w := startWriter(t, s)
	ready := Answer{Status: metav1.ConditionTrue, Reason: ReasonHostReady, Message: "nothing"}
	slow := Answer{Status: metav1.ConditionFalse, Reason: "PcieLink", Message: "x8"}
	w.SetHost("dra.net", map[string]Answer{"nic0": slow, "nic9": slow}) // nobody holds a device yet
	w.Set(Report{Driver: "dra.net", Claim: written, Devices: []DeviceState{{Pool: "node", Device: "nic0", Reason: "Attached"}}})
	agenttest.Eventually(t, "the answer is written with the device", func() bool { return len(s.seen()) == 1 })
	w.SetHost("dra.net", map[string]Answer{"nic0": slow, "nic9": ready}) // nothing of nic0
	w.SetHost("dra.cpu", nil)
	w.SetHost("dra.net", map[string]Answer{"nic0": ready})
	agenttest.Eventually(t, "the mending is written", func() bool { return len(s.seen()) == 2 })
	w.SetHost("dra.net", nil)
	agenttest.Eventually(t, "what nobody judges any more is taken away", func() bool { return len(s.seen()) == 3 })
	entry := writtenPath + " nic0 Ready=True:Attached NetworkReady=True:Attached"
	want := entry + " HostReady=False:PcieLink:x8\n" + entry + " HostReady=True:HostReady:nothing\n" + entry
	if got := strings.Join(s.seen(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPodsHearWhatBecomesWrongAndIsMended(t *testing.T) {
	client := fake.NewClientset()
	events := kube.NewEvents(t.Context(), "node")
	go events.Run(t.Context(), client)
	w := NewWriter(client, events)
	heard := func(kind string) string {
		list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, e := range list.Items {
			if e.InvolvedObject.Kind != kind {
				continue
			}
			all = append(all, e.InvolvedObject.Name+" "+e.Type+" "+e.Reason+" "+e.Message)
		}
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
	hold := func(claim driver.ClaimRef, pod string) {
		w.Set(Report{
			Driver: "dra.net", Claim: claim, Pods: []driver.PodRef{{Name: pod, UID: types.UID(pod)}},
			Devices: []DeviceState{{Pool: "node", Device: "nic0"}},
		})
	}
	agenttest.Eventually(t, "events are written", func() bool { // those before are lost
		events.Node(false, "Begins", "now")
		return heard("Node") != ""
	})
	hold(written, "first")
	ready := Answer{Status: metav1.ConditionTrue, Reason: ReasonHostReady, Message: "nothing"}
	slow := Answer{Status: metav1.ConditionFalse, Reason: "PcieLink", Message: "x8"}
	w.SetHost("dra.net", map[string]Answer{"nic0": ready}) // nobody wants to hear that
	w.SetHost("dra.net", map[string]Answer{"nic0": slow})
	w.SetHost("dra.net", map[string]Answer{"nic0": slow})
	hold(driver.ClaimRef{UID: "later", Namespace: "default", Name: "later"}, "second")
	w.SetHost("dra.net", map[string]Answer{"nic0": ready})
	want := "first Normal HostReady nic0: nothing\nfirst Warning PcieLink nic0: x8\n" +
		"second Normal HostReady nic0: nothing\nsecond Warning PcieLink nic0: x8"
	agenttest.Eventually(t, "all events", func() bool { return strings.Count(heard("Pod"), "\n") >= 3 })
	if got := heard("Pod"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
