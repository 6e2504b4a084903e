// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/containerd/nri/pkg/api"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev"
	"plumbline.dev/plumbline/internal/guard"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/rtnl"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
)

// BenchmarkPodStartOne and BenchmarkPodStartEight are what the agent adds to the
// start of a pod with NICs, stage by stage as the kubelet and the runtime ask: the
// median of each in milliseconds, and in milliseconds of a processor, which a busy
// machine changes less. The kernel's moves are most of the sandbox.
func BenchmarkPodStartOne(b *testing.B)   { benchmarkPodStart(b, 1) }
func BenchmarkPodStartEight(b *testing.B) { benchmarkPodStart(b, 8) }

func benchmarkPodStart(b *testing.B, nics int) {
	host, pod := hosttest.NewNamespace(b), hosttest.NewNamespace(b)
	devices := make([]string, nics)
	for i := range devices {
		devices[i] = fmt.Sprintf("nic%d", i)
		host.Run(b, fmt.Sprintf(`
			ip link add nic%[1]d address 02:00:00:00:00:0%[1]d type veth peer name port%[1]d
			ip link set port%[1]d up
			ip address add 10.33.%[1]d.2/24 dev nic%[1]d
			ip link set nic%[1]d up`, i))
	}
	h, p := startedAgent(b, host)
	claim := agenttest.ClaimFor("a", devices[0])
	for _, d := range devices[1:] {
		claim.Devices = append(claim.Devices, driver.Allocation{Request: "r", Pool: "node", Device: d})
	}
	sandbox := podOf("a", pod.Path())
	container := &api.Container{Id: "c", PodSandboxId: sandbox.GetId(), Name: "main"}
	for i := range devices {
		container.Env = append(container.Env, cdi.Marker(recordFor(claim.ClaimRef, devices), i))
	}
	spent := map[string][]time.Duration{}
	stage := func(name string, work func() error) {
		wall, used := time.Now(), processor()
		if err := work(); err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		spent[name] = append(spent[name], time.Since(wall))
		spent["CPU-"+name] = append(spent["CPU-"+name], processor()-used)
	}
	for b.Loop() {
		stage("prepare", func() error { _, err := p.Prepare(b.Context(), claim); return err })
		stage("sandbox", func() error { return h.RunPodSandbox(b.Context(), sandbox) })
		stage("container", func() error { _, _, err := h.CreateContainer(b.Context(), sandbox, container); return err })
		stage("stop", func() error { return h.StopPodSandbox(b.Context(), sandbox) })
		stage("unprepare", func() error { return p.Unprepare(b.Context(), claim.ClaimRef) })
	}
	for name, all := range spent {
		b.ReportMetric(float64(hosttest.Median(all))/1e6, name+"-ms")
	}
}

func recordFor(ref driver.ClaimRef, devices []string) driver.Record {
	r := driver.Record{Driver: netdev.Name, Claim: ref}
	for _, d := range devices {
		r.Devices = append(r.Devices, driver.DeviceRecord{Device: d})
	}
	return r
}

// startedAgent is one with the real driver, its guard, and nobody to tell.
func startedAgent(b *testing.B, host *hosttest.Namespace) (*hooks, *claims.Preparer) {
	b.Helper()
	d, err := netdev.New(netdev.Options{Host: host.Path(), BootID: "boot", Sys: fstest.MapFS{}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(d.Close)
	dir := b.TempDir()
	records, err := journal.Open(filepath.Join(dir, "journal"))
	if err != nil {
		b.Fatal(err)
	}
	specs, err := cdi.Open(filepath.Join(dir, "cdi"))
	if err != nil {
		b.Fatal(err)
	}
	r := New("/nowhere")
	b.Cleanup(r.namespaces.closeAll)
	m := nicsOf(b, host)
	p := &claims.Preparer{
		Driver: claims.Of(d), Journal: records, CDI: specs, BootID: "boot", Machine: func() *model.Machine { return m },
		RuntimeReady: func() error { return nil }, Namespaces: r.namespaces, Status: func(status.Report) {}, Changed: func() {},
		Guard: filepath.Join(dir, guard.Program),
	}
	p.InPod = func(r driver.Record) ([]guard.NIC, error) {
		moved, err := netdev.Moved(r)
		var nics []guard.NIC
		for _, m := range moved {
			nics = append(nics, *guard.NICOf(m.NIC, m.Alone, m.GivenMAC))
		}
		return nics, err
	}
	return r.hooks(Options{Preparers: []*claims.Preparer{p}}), p
}

func nicsOf(b *testing.B, host *hosttest.Namespace) *model.Machine {
	b.Helper()
	conn, err := rtnl.Dial(host.Fd())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	links, err := conn.Links()
	if err != nil {
		b.Fatal(err)
	}
	var parts model.Machine
	for _, l := range links {
		if strings.HasPrefix(l.Name, "nic") {
			parts.NICs = append(parts.NICs, model.NIC{Interface: &model.Interface{Name: l.Name, Index: l.Index, MAC: l.MAC, Kind: l.Kind, Virtual: true}})
		}
	}
	m, err := model.New(parts)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// processor is what this process has used of processors (getrusage(2)).
func processor() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
