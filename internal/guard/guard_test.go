// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// container is a real process, as a container's first process waits while its
// hooks run.
func container(t *testing.T, ns *hosttest.Namespace, command ...string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	ns.Do(t, cmd.Start)
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func stateOf(pid int) string {
	return fmt.Sprintf(`{"ociVersion":"1.2.0","id":"c1","status":"created","pid":%d,"bundle":"","annotations":{
		"io.kubernetes.cri.sandbox-namespace":"default","io.kubernetes.cri.sandbox-name":"trainer"}}`, pid)
}

func host(wait time.Duration) Options {
	return Options{ProcRoot: "/proc", Proc: os.DirFS("/proc"), Wait: wait}
}

func argsOf(t *testing.T, w ...Want) []string {
	t.Helper()
	args, err := Args(w...)
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// virtual is the identity of a virtual interface in a namespace.
func virtual(t *testing.T, ns *hosttest.Namespace, name string) *NIC {
	t.Helper()
	conn, err := rtnl.Dial(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l, err := conn.LinkByName(name)
	if err != nil || l == nil {
		t.Fatalf("link %s: %v, %v", name, l, err)
	}
	return &NIC{PermanentMAC: l.PermanentMAC, MAC: l.MAC, Kind: l.Kind}
}

func TestContainerWithItsNIC(t *testing.T) {
	pod, elsewhere := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	hosttest.Veth(t, pod, "net1", elsewhere, "peer")
	want := Want{Claim: "default/nic", Device: "nic0", NIC: virtual(t, pod, "net1")}
	pod.Run(t, "ip link set net1 name renamed") // what a name is never asked for
	in := strings.NewReader(stateOf(container(t, pod, "sleep", "60")))
	if err := Run(t.Context(), argsOf(t, want), in, host(time.Minute)); err != nil {
		t.Error(err)
	}
}

func TestContainerWithoutItsNIC(t *testing.T) {
	pod, elsewhere := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	hosttest.Veth(t, elsewhere, "eth1", elsewhere, "peer")
	nic := virtual(t, elsewhere, "eth1")
	want := Want{Claim: "default/nic", Device: "nic0", NIC: nic}
	in := strings.NewReader(stateOf(container(t, pod, "sleep", "60")))
	err := Run(t.Context(), argsOf(t, want), in, host(50*time.Millisecond))
	sentence := "pod default/trainer: device nic0 of claim default/nic (the NIC with MAC " + *nic.MAC +
		") is not in the pod's network namespace; waited 50ms for the node's plumbline-agent to put it right, and the container must not run without it"
	if err == nil || err.Error() != sentence {
		t.Errorf("got  %v\nwant %s", err, sentence)
	}
}

// A device on its way is waited for.
func TestContainerWhoseNICIsOnItsWay(t *testing.T) {
	pod, elsewhere := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	hosttest.Veth(t, elsewhere, "eth1", elsewhere, "peer")
	want := Want{Claim: "default/nic", Device: "nic0", NIC: virtual(t, elsewhere, "eth1")}
	pid := container(t, pod, "sleep", "60")
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), argsOf(t, want), strings.NewReader(stateOf(pid)), host(time.Minute))
	}()
	select {
	case err := <-done:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(3 * lookEvery):
	}
	elsewhere.Run(t, fmt.Sprintf("ip link set eth1 netns %d", pid))
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestContainerThatIsGone(t *testing.T) {
	pod := hosttest.NewNamespace(t)
	cmd := exec.Command("true")
	pod.Do(t, cmd.Run)
	want := Want{Claim: "default/nic", Device: "nic0", NIC: &NIC{MAC: ptr("02:00:00:00:00:01")}}
	err := Run(t.Context(), argsOf(t, want), strings.NewReader(stateOf(cmd.Process.Pid)), host(time.Minute))
	if err == nil || strings.Contains(err.Error(), "waited") {
		t.Errorf("got %v, want a failure at once", err)
	}
}

func TestWhereAContainerMayRun(t *testing.T) {
	status := "Name:\tinit\nCpus_allowed:\tf0\nCpus_allowed_list:\t4-7\nMems_allowed_list:\t1\n"
	proc := fstest.MapFS{"7/status": &fstest.MapFile{Data: []byte(status)}}
	for _, test := range []struct {
		name  string
		wants []Want
		want  string
	}{
		{"its CPUs", []Want{{CPUs: "4-7", Mems: "1"}}, ""},
		{"those of two devices", []Want{{CPUs: "4-5", Mems: "1"}, {CPUs: "6-7", Mems: "1"}}, ""},
		{"fewer, since one went offline", []Want{{CPUs: "4-8", Mems: "1"}}, ""},
		{"nothing asked for", []Want{{}}, ""},
		{"more than one device gives", []Want{{CPUs: "4-5", Mems: "1"}}, "the container may use CPUs 4-7, and its claims give it 4-5"},
		{"other memory", []Want{{CPUs: "4-7", Mems: "0"}}, "the container may use memory nodes 1, and its claims give it 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := misplaced(proc, 7, test.wants)
			if err != nil || strings.Join(got, "; ") != test.want {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
	for _, bad := range []string{"", "Cpus_allowed_list:\tx\nMems_allowed_list:\t0\n"} {
		proc["7/status"].Data = []byte(bad)
		if _, err := misplaced(proc, 7, []Want{{CPUs: "0"}}); err == nil {
			t.Errorf("status %q: no error", bad)
		}
	}
}

// A real process that may run everywhere fails a claim to one CPU; one that was
// confined before its hooks ran does not.
func TestRealProcessOnItsCPUs(t *testing.T) {
	pod := hosttest.NewNamespace(t)
	want := Want{Claim: "default/cpus", Device: "cpudevnuma000", CPUs: "0"}
	free, err := statusOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if free == "0" {
		t.Skip("this machine has one CPU: every process is confined to it")
	}
	in := strings.NewReader(stateOf(container(t, pod, "sleep", "60")))
	if err := Run(t.Context(), argsOf(t, want), in, host(time.Millisecond)); err == nil {
		t.Error("started on every CPU")
	}
	pid := container(t, pod, "taskset", "-c", "0", "sleep", "60")
	if err := Run(t.Context(), argsOf(t, want), strings.NewReader(stateOf(pid)), host(10*time.Second)); err != nil {
		t.Error(err)
	}
}

func statusOf(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "", err
	}
	set, err := statusList(string(text), "Cpus_allowed_list")
	return set.String(), err
}

// The CPUs of a container are those of all its hooks together, which its bundle
// lists.
func TestBundleTellsTheOtherDevices(t *testing.T) {
	bundle := t.TempDir()
	own, other := Want{Device: "a", CPUs: "0-1"}, Want{Device: "b", CPUs: "2-3"}
	type hook struct {
		Path string   `json:"path"`
		Args []string `json:"args"`
	}
	var config struct {
		Hooks struct {
			CreateRuntime []hook `json:"createRuntime"`
		} `json:"hooks"`
	}
	for _, w := range []Want{own, other} {
		config.Hooks.CreateRuntime = append(config.Hooks.CreateRuntime, hook{Path: "/opt/" + Program, Args: append([]string{Program}, argsOf(t, w)...)})
	}
	config.Hooks.CreateRuntime = append(config.Hooks.CreateRuntime, hook{Path: "/usr/bin/another", Args: []string{"another", "x"}})
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	wants, err := state{Bundle: bundle}.all([]Want{own})
	if err != nil {
		t.Fatal(err)
	}
	cpus, _, err := allowedBy(wants)
	if err != nil || cpus.String() != "0-3" {
		t.Errorf("CPUs %s, %v; want 0-3", cpus, err)
	}
}

func TestArguments(t *testing.T) {
	pid := stateOf(1)
	good := argsOf(t, Want{Device: "a"})[0]
	for _, args := range [][]string{nil, {"a", "b"}, {good, "b"}, {"--wanted"}, {wantFlag}, {wantFlag + "[]"}, {wantFlag + `{"cpus":"x"}`}, {wantFlag + `{"nic":{"pci":"nowhere"}}`}} {
		if err := Run(t.Context(), args, strings.NewReader(pid), host(0)); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// What comes on standard input is the runtime's, but a hook must not fall over
// whatever it is.
func FuzzState(f *testing.F) {
	for _, seed := range []string{stateOf(12), "", "{", "null", "[]", `{"pid":-1}`, `{"pid":0}`, `{"pid":1e9}`, `{"pid":"12"}`, `{"pid":12,"annotations":null}`, strings.Repeat("[", 10000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := decodeState(strings.NewReader(text))
		if err == nil && s.PID <= 0 {
			t.Errorf("accepted pid %d", s.PID)
		}
		_ = s.pod()
	})
}

func FuzzWant(f *testing.F) {
	f.Add(`{"claim":"a/b","device":"d","nic":{"pci":"0000:91:00.0"},"cpus":"0-3"}`)
	f.Add(`{"cpus":"0-99999999999"}`)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := parseArg(wantFlag + text)
		if err != nil {
			return
		}
		args, err := Args(w)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseArg(args[0]); err != nil {
			t.Errorf("%s is written as %s, which is refused: %v", text, args[0], err)
		}
	})
}

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	source, path := filepath.Join(dir, "source"), filepath.Join(dir, "state", "bin", Program)
	write := func(script string) {
		t.Helper()
		if err := os.WriteFile(source, []byte("#!/bin/sh\n"+script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("echo " + Works)
	for range 2 { // an agent after this one installs over it
		if err := Install(t.Context(), source, path); err != nil {
			t.Fatal(err)
		}
	}
	for _, broken := range []string{"exit 3", "echo something else"} {
		write(broken)
		if err := Install(t.Context(), source, path); err == nil {
			t.Errorf("%s: no error", broken)
		}
	}
	if err := Install(t.Context(), filepath.Join(dir, "nowhere"), path); err == nil {
		t.Error("installed what is not there")
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func ptr[T any](v T) *T { return &v }

// One hook may want several NICs, and names each that is missing.
func TestContainerWithoutTwoOfItsNICs(t *testing.T) {
	pod, elsewhere := hosttest.NewNamespace(t), hosttest.NewNamespace(t)
	var wants []Want
	for _, name := range []string{"eth1", "eth2", "eth3"} {
		hosttest.Veth(t, elsewhere, name, elsewhere, "peer"+name)
		wants = append(wants, Want{Claim: "default/nics", Device: name, NIC: virtual(t, elsewhere, name)})
	}
	pid := container(t, pod, "sleep", "60")
	elsewhere.Run(t, fmt.Sprintf("ip link set eth2 netns %d", pid))
	args, err := Args(wants...)
	if err != nil {
		t.Fatal(err)
	}
	err = Run(t.Context(), args, strings.NewReader(stateOf(pid)), host(time.Millisecond))
	for _, w := range wants {
		if err == nil || strings.Contains(err.Error(), "device "+w.Device+" ") == (w.Device == "eth2") {
			t.Errorf("device %s: got %v; want the two that are missing named", w.Device, err)
		}
	}
}
