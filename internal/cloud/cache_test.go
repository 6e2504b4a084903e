// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/model"
)

// fakeCloud answers what it is told to.
type fakeCloud struct {
	name string
	mu   sync.Mutex
	// probe and look fail where they are set.
	probe, look error
	// answers are by MAC; a device without one is unknown.
	answers map[string]Answer
	asked   [][]Device
	config  bool
}

func (f *fakeCloud) Name() string             { return f.name }
func (f *fakeCloud) Configures(d Device) bool { return f.config && d.HasMAC() }
func (f *fakeCloud) Probe(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.probe
}

func (f *fakeCloud) Lookup(_ context.Context, devices []Device) ([]Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, devices)
	if f.look != nil {
		return nil, f.look
	}
	var all []Answer
	for _, d := range devices {
		all = append(all, f.answers[d.MAC])
	}
	return all, nil
}

func (f *fakeCloud) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeCloud) timesAsked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

// quick asks again at once.
var quick = PollConfig{Refresh: 10 * time.Millisecond, Retry: time.Millisecond, MaxRetry: 10 * time.Millisecond, Limit: 10 * time.Second}

func machineWith(t *testing.T, macs ...string) *model.Machine {
	t.Helper()
	parts := model.Machine{}
	for i, mac := range macs {
		parts.NICs = append(parts.NICs, model.NIC{Interface: &model.Interface{Name: "eth" + string(rune('0'+i)), MAC: &mac}})
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const (
	mac0 = "42:01:0a:00:00:02"
	mac1 = "42:01:c0:a8:00:02"
)

func network(name string) Answer {
	return Answer{Attributes: map[string]model.Attribute{"gce.dra.net/networkName": model.TextAttribute(name)}}
}

// run starts the Cache and stops it with the test.
func run(t *testing.T, b *Cache) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: still not so after 20 s", what)
		}
	}
}

func networkOf(b *Cache, m *model.Machine, nic int) string {
	a := b.Describe(m).NICs[nic].Attributes["gce.dra.net/networkName"]
	if a.Text == nil {
		return ""
	}
	return *a.Text
}

func TestCacheKeepsWhatItKnewWhileTheProviderIsAway(t *testing.T) {
	f := &fakeCloud{name: "fake", answers: map[string]Answer{mac0: network("default"), mac1: network("tpu-net-1")}}
	var mu sync.Mutex
	var told []string
	b := Open(t.Context(), Options{Candidates: []Provider{f}, Poll: quick, Report: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		text := "works"
		if err != nil {
			text = err.Error()
		}
		told = append(told, text)
	}})
	m := machineWith(t, mac0, mac1)
	if got := networkOf(b, m, 1); got != "" {
		t.Fatalf("before anybody was asked, networkName is %q", got)
	}
	b.Watch(m)
	run(t, b)
	eventually(t, "first answer", func() bool { return networkOf(b, m, 1) == "tpu-net-1" })
	select {
	case <-b.Changed():
	case <-time.After(20 * time.Second):
		t.Fatal("nobody was told of the first answer")
	}
	if m.NICs[1].Attributes != nil {
		t.Error("Describe changed the machine it was given")
	}

	f.set(func() { f.look = errors.New("connection refused") })
	before := f.timesAsked()
	eventually(t, "five failures", func() bool { return f.timesAsked() > before+5 })
	if got := networkOf(b, m, 1); got != "tpu-net-1" {
		t.Errorf("while the provider is away, networkName is %q", got)
	}
	f.set(func() { f.look, f.answers[mac1] = nil, network("tpu-net-2") })
	eventually(t, "new answer", func() bool { return networkOf(b, m, 1) == "tpu-net-2" })
	eventually(t, "good news", func() bool { mu.Lock(); defer mu.Unlock(); return len(told) == 2 })
	want := []string{"ask fake about the node's NICs: connection refused", "works"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

func TestCacheKeepsOneDeviceWhereAnotherFails(t *testing.T) {
	f := &fakeCloud{name: "fake", answers: map[string]Answer{mac0: network("a"), mac1: network("b")}}
	b := Open(t.Context(), Options{Candidates: []Provider{f}, Poll: quick})
	m := machineWith(t, mac0, mac1)
	b.Watch(m)
	run(t, b)
	eventually(t, "both answers", func() bool { return networkOf(b, m, 0) == "a" && networkOf(b, m, 1) == "b" })
	f.set(func() {
		f.answers[mac0] = Answer{Err: errors.New("time-out")}
		f.answers[mac1] = network("c")
	})
	eventually(t, "the other's answer", func() bool { return networkOf(b, m, 1) == "c" })
	if got := networkOf(b, m, 0); got != "a" {
		t.Errorf("networkName of the device that failed is %q, want what was known", got)
	}
}

func TestBookAsksAtOnceAboutANewNIC(t *testing.T) {
	f := &fakeCloud{name: "fake", answers: map[string]Answer{mac0: network("a"), mac1: network("b")}}
	slow := quick
	slow.Refresh = time.Hour
	b := Open(t.Context(), Options{Candidates: []Provider{f}, Poll: slow})
	b.Watch(machineWith(t, mac0))
	run(t, b)
	both := machineWith(t, mac0, mac1)
	eventually(t, "first NIC", func() bool { return networkOf(b, both, 0) == "a" })
	b.Watch(both)
	eventually(t, "second NIC", func() bool { return networkOf(b, both, 1) == "b" })
	f.mu.Lock()
	defer f.mu.Unlock()
	if last := f.asked[len(f.asked)-1]; len(last) != 1 || last[0].MAC != mac1 {
		t.Errorf("asked about %v, want the new NIC only", last)
	}
}

func TestBookOutlivesTheAgentButNotTheBoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloud.json")
	m := machineWith(t, mac0)
	f := &fakeCloud{name: "fake", answers: map[string]Answer{mac0: network("default")}}
	first := Open(t.Context(), Options{Candidates: []Provider{f}, Poll: quick, File: path, BootID: "one"})
	first.Watch(m)
	run(t, first)
	eventually(t, "first answer", func() bool { return networkOf(first, m, 0) == "default" })

	for _, test := range []struct {
		name, boot string
		candidates []Provider
		want       string
	}{
		{"the same boot", "one", []Provider{f}, "default"},
		{"the same boot, not probed again", "one", []Provider{&fakeCloud{name: "other"}, f}, "default"},
		{"another boot", "two", []Provider{f}, ""},
		{"another provider", "one", []Provider{&fakeCloud{name: "other"}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := Open(t.Context(), Options{Candidates: test.candidates, File: path, BootID: test.boot})
			if got := networkOf(b, m, 0); got != test.want {
				t.Errorf("networkName is %q, want %q", got, test.want)
			}
		})
	}
	t.Run("garbage", func(t *testing.T) {
		garbage := filepath.Join(t.TempDir(), "cloud.json")
		if err := os.WriteFile(garbage, []byte(`{"version": 1, "answers": [`), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := networkOf(Open(t.Context(), Options{Candidates: []Provider{f}, File: garbage, BootID: "one"}), m, 0); got != "" {
			t.Errorf("networkName is %q", got)
		}
	})
}

func TestDetectTakesTheFirstThatSaysYes(t *testing.T) {
	no := &fakeCloud{name: "no", probe: errors.New("connection refused")}
	yes, also := &fakeCloud{name: "yes"}, &fakeCloud{name: "also"}
	got, err := detect(t.Context(), []Provider{no, yes, also})
	if err != nil || got != Provider(yes) {
		t.Errorf("detect = %v, %v; want %s", got, err, yes.name)
	}
	_, err = detect(t.Context(), []Provider{no})
	if !errors.Is(err, errNowhere) || !strings.Contains(err.Error(), "no: connection refused") {
		t.Errorf("detect = %v, want errNowhere and the reason", err)
	}
}

func TestBookRecognisesACloudThatComesLate(t *testing.T) {
	f := &fakeCloud{name: "fake", probe: errors.New("connection refused"), answers: map[string]Answer{mac0: network("default")}}
	other := &fakeCloud{name: "other", probe: errors.New("not here")}
	reported := make(chan error, 100)
	b := Open(t.Context(), Options{Candidates: []Provider{other, f}, Poll: quick, Report: func(err error) { reported <- err }})
	m := machineWith(t, mac0)
	b.Watch(m)
	run(t, b)
	select {
	case <-b.first:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody was asked")
	}
	f.set(func() { f.probe = nil })
	eventually(t, "answer", func() bool { return networkOf(b, m, 0) == "default" })
	if len(reported) > 0 {
		t.Errorf("being in no cloud was reported as a problem: %v", <-reported)
	}
}

func TestConfigAsksWhereItDoesNotKnow(t *testing.T) {
	layer := []byte(`{"interface": {"mtu": 8896}}`)
	d := Device{Name: "eth0", MAC: mac0}
	f := &fakeCloud{name: "fake", config: true, answers: map[string]Answer{mac0: {Config: layer}}}
	b := Open(t.Context(), Options{Candidates: []Provider{f}, Poll: quick})
	run(t, b)
	got, err := b.Config(t.Context(), d)
	if err != nil || string(got) != string(layer) {
		t.Fatalf("Config = %s, %v", got, err)
	}
	f.set(func() { f.look = errors.New("connection refused") })
	if got, err = b.Config(t.Context(), d); err != nil || string(got) != string(layer) {
		t.Errorf("with the provider away, Config = %s, %v; want what is known", got, err)
	}
	_, err = b.Config(t.Context(), Device{Name: "eth1", MAC: mac1})
	if err == nil || !strings.Contains(err.Error(), "ask fake for the parameters of eth1: connection refused") {
		t.Errorf("of an unknown device, Config = %v; want a refusal", err)
	}
	if got, err = b.Config(t.Context(), Device{Name: "efa0", RDMA: "rdmap16s27"}); err != nil || got != nil {
		t.Errorf("of a device without parameters, Config = %s, %v", got, err)
	}
	f.set(func() { f.config = false })
	if got, err = b.Config(t.Context(), Device{Name: "eth1", MAC: mac1}); err != nil || got != nil {
		t.Errorf("of a provider without parameters, Config = %s, %v", got, err)
	}
}

func TestBookOfNoCloud(t *testing.T) {
	b := Open(t.Context(), Options{Poll: quick})
	m := machineWith(t, mac0)
	b.Watch(m)
	run(t, b)
	if diff := cmp.Diff(m.NICs, b.Describe(m).NICs); diff != "" {
		t.Errorf("Describe changed something:\n%s", diff)
	}
	if got, err := b.Config(t.Context(), DeviceOf(m.NICs[0])); got != nil || err != nil {
		t.Errorf("Config = %s, %v", got, err)
	}
}
