// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package devicehealth_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/devicehealth"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/model"
)

func machine(t *testing.T, parts model.Machine) *model.Machine {
	t.Helper()
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// faultsOf is one line per device: "eth0 CarrierLost".
func faultsOf(w *devicehealth.Watcher) string {
	var lines []string
	for _, name := range w.Devices() {
		for _, f := range w.Faults()[name] {
			lines = append(lines, name+" "+string(f.Kind))
		}
	}
	return strings.Join(lines, "\n")
}

func eth(name string, up bool, state string, speed int) model.NIC {
	i := &model.Interface{Name: name, Up: &up, State: &state}
	if speed > 0 {
		i.SpeedMbps = &speed
	}
	return model.NIC{Interface: i}
}

func TestScans(t *testing.T) {
	root, function := []model.PCIRoot{{Name: "pci0000:10"}}, model.PCIAddress{Bus: 0x11}
	inPod := eth("eth9", true, "up", 400000)
	inPod.PCI = &function
	withheld := eth("uplink", true, "down", 0)
	reason := "carries the default route"
	withheld.Withheld = &reason
	there := model.Machine{Roots: root, Functions: []model.PCIFunction{{Address: function, Root: "pci0000:10"}}}
	for _, tt := range []struct {
		name  string
		scans []model.Machine
		held  []model.NIC
		want  string
	}{
		{"well", []model.Machine{{NICs: []model.NIC{eth("eth0", true, "up", 400000)}}}, nil, ""},
		{"no carrier", []model.Machine{{NICs: []model.NIC{eth("eth0", true, "down", 0)}}}, nil, "eth0 CarrierLost"},
		{"set down", []model.Machine{{NICs: []model.NIC{eth("eth0", false, "down", 0)}}}, nil, ""},
		{"not offered", []model.Machine{{NICs: []model.NIC{withheld}}}, nil, ""},
		{
			"slower than it was",
			[]model.Machine{{NICs: []model.NIC{eth("eth0", true, "up", 400000)}}, {NICs: []model.NIC{eth("eth0", true, "up", 100000)}}},
			nil, "eth0 LinkSpeedDegraded",
		},
		{
			"faster than it was",
			[]model.Machine{{NICs: []model.NIC{eth("eth0", true, "up", 100000)}}, {NICs: []model.NIC{eth("eth0", true, "up", 400000)}}},
			nil, "",
		},
		{"held and there", []model.Machine{there}, []model.NIC{inPod}, ""},
		{"held and gone", []model.Machine{{}}, []model.NIC{inPod}, "pci-0000-11-00-0 DeviceGone"},
		{"free and gone", []model.Machine{{NICs: []model.NIC{eth("eth0", true, "down", 0)}}, {}}, nil, ""},
		{"given up and gone", []model.Machine{{}, {}}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := devicehealth.New(devicehealth.Options{})
				defer w.Close()
				changed := w.Subscribe()
				for _, scan := range tt.scans {
					w.Scanned(machine(t, scan), tt.held)
					time.Sleep(time.Minute)
					synctest.Wait()
				}
				if diff := cmp.Diff(tt.want, faultsOf(w)); diff != "" {
					t.Errorf("faults (-want +got):\n%s", diff)
				}
				if tt.want != "" {
					<-changed
				}
			})
		})
	}
}

// eventually waits until the faults are what they should be: the kernel decides
// how long that takes.
func eventually(t *testing.T, w *devicehealth.Watcher, want string) {
	t.Helper()
	changed := w.Subscribe()
	limit := time.After(30 * time.Second)
	for faultsOf(w) != want {
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("faults are %q, want %q", faultsOf(w), want)
		}
	}
}

// A NIC in a pod loses its carrier when the other end goes down, and gets it
// back; a pod that sets it down, or renames it, has done no harm.
func TestCarrierInAPod(t *testing.T) {
	far, pod := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	hosttest.Veth(t, pod, "eth0", far, "far0")
	pod.Run(t, "ip link set eth0 address 02:00:00:00:00:01 up")
	far.Run(t, "ip link set far0 up")
	w := devicehealth.New(devicehealth.Options{Raise: time.Millisecond, Clear: time.Millisecond, Settle: time.Millisecond})
	defer w.Close()
	nic := eth("nic0", true, "up", 0)
	mac := "02:00:00:00:00:01"
	nic.Interface.MAC = &mac
	w.Scanned(machine(t, model.Machine{}), []model.NIC{nic})
	if err := w.Add("claim", pod.Fd(), []model.NIC{nic}); err != nil {
		t.Fatal(err)
	}
	eventually(t, w, "")
	far.Run(t, "ip link set far0 down")
	eventually(t, w, "nic0 CarrierLost")
	far.Run(t, "ip link set far0 up")
	eventually(t, w, "")
	pod.Run(t, "ip link set eth0 down name hidden address 02:00:00:00:00:02")
	time.Sleep(200 * time.Millisecond)
	eventually(t, w, "")
	far.Run(t, "ip link delete far0")
	eventually(t, w, "nic0 DeviceGone")
	w.Remove("claim")
	w.Scanned(machine(t, model.Machine{}), nil)
	eventually(t, w, "")
}

// Nobody listens any more after Close, whoever comes late.
func TestAddAfterClose(t *testing.T) {
	pod := hosttest.NewNamespace(t)
	w := devicehealth.New(devicehealth.Options{})
	w.Close()
	if err := w.Add("claim", pod.Fd(), []model.NIC{eth("nic0", true, "up", 0)}); err != nil {
		t.Error(err)
	}
	w.Remove("claim")
}
