// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rdma"
	"plumbline.dev/plumbline/internal/model"
)

// rdmaNICs names PCI NICs of a virtual machine made for this, which reach each other
// and have soft RoCE that works in network namespaces.
const rdmaNICs = "PLUMBLINE_RDMA_NICS"

// rdmaPod is a namespace that gets a NIC with its RDMA device.
type rdmaPod struct {
	ns                   *hosttest.Namespace
	device, address, gid string
	record               driver.Record
}

// TestRDMAInPods is what no stand-in of a file system shows: verbs work in the
// namespaces of two pods over the NICs that were moved there and over nothing else, in
// both modes that a kernel has. Exclusive mode comes first, since the kernel changes
// modes only while there is one namespace.
func TestRDMAInPods(t *testing.T) {
	names := strings.FieldsFunc(os.Getenv(rdmaNICs), func(r rune) bool { return r == ',' })
	if len(names) < 2 {
		t.Skipf("needs a virtual machine with RDMA in namespaces, whose NICs %s names: plumblab guest-test --guest rdma", rdmaNICs)
	}
	for _, mode := range []rdma.Mode{rdma.Exclusive, rdma.Shared} {
		t.Run(string(mode), func(t *testing.T) {
			setMode(t, mode)
			rdmaInPods(t, mode, names[len(names)-2:])
		})
	}
}

// setMode waits for namespaces that earlier tests left: the kernel ends them in its own
// time.
func setMode(t *testing.T, mode rdma.Mode) {
	t.Helper()
	eventually(t, "set RDMA mode "+string(mode), func() error { return rdma.SetNamespaceMode(mode) })
}

// eventually tries until there is no error, for half a minute.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func rdmaInPods(t *testing.T, mode rdma.Mode, names []string) {
	d, err := New(Options{Host: netns.Self, BootID: "boot", Sys: os.DirFS("/sys")})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var pods []rdmaPod
	var lent []string
	for i, name := range names {
		lent = append(lent, rdmaOf(t, name)+" on "+name)
		pods = append(pods, lendRDMA(t, d, mode, name, i+1))
	}
	for _, pod := range pods {
		awaitGID(t, pod)
	}
	latency := between(t, pods, "ib_write_lat -F -n 100")
	if row := regexp.MustCompile(`(?m)^ *2 +100 +([0-9.]+)`).FindStringSubmatch(latency); row == nil || row[1] == "0.00" {
		t.Errorf("ib_write_lat printed no latency:\n%s", latency)
	}
	if mode == rdma.Shared {
		checkBandwidth(t, pods)
	}
	t.Logf("%s, emulated, of which no speed follows:\n%s", mode, latency)
	for _, pod := range pods {
		if err := d.Detach(t.Context(), pod.record, pod.ns.Path()); err != nil {
			t.Fatal(err)
		}
		pod.ns.Close()
	}
	eventually(t, "wait for the host's RDMA devices", func() error {
		// Those of the test before may end meanwhile, in their own time.
		after := rdmaOnHost(t)
		for _, device := range lent {
			if !slices.Contains(after, device) {
				return fmt.Errorf("the host has %v, and had %s", after, device)
			}
		}
		return nil
	})
}

// checkBandwidth runs ib_write_bw as the mission has it, but with 5 messages of each
// size, as few as it takes, and compares with what the claimed NIC counted.
func checkBandwidth(t *testing.T, pods []rdmaPod) {
	t.Helper()
	const largest, all = 8 << 20, 5 * (16<<20 - 2)
	sent := counter(t, pods[1], "tx_bytes")
	out := between(t, pods, "ib_write_bw -a -F --report_gbits -q 1 -n 5")
	if row := regexp.MustCompile(fmt.Sprintf(`(?m)^ *%d +5 +[0-9.]+ +([0-9.]+)`, largest)).FindStringSubmatch(out); row == nil || row[1] == "0.000000" {
		t.Errorf("ib_write_bw printed no bandwidth of the largest messages:\n%s", out)
	}
	if sent = counter(t, pods[1], "tx_bytes") - sent; sent < all {
		t.Errorf("the claimed NIC sent %d bytes, and the messages have %d", sent, all)
	}
	t.Logf("the claimed NIC sent %d bytes; emulated, of which no speed follows:\n%s", sent, out)
}

// rdmaOnHost are the host's RDMA devices and the interfaces they are on.
func rdmaOnHost(t *testing.T) []string {
	t.Helper()
	parents, err := filepath.Glob("/sys/class/infiniband/*/parent")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, file := range parents {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue // it goes while it is read
		}
		if err != nil {
			t.Fatal(err)
		}
		// One that ends has no interface any more (drivers/infiniband/sw/rxe/rxe_verbs.c,
		// parent_show).
		if parent := strings.TrimSpace(string(text)); parent != "" && parent != "(null)" {
			list = append(list, filepath.Base(filepath.Dir(file))+" on "+parent)
		}
	}
	return list
}

// lendRDMA attaches a NIC to a new namespace as a pod's claim does. Its RDMA device,
// which the kernel deleted, is made there again, as real hardware keeps its own.
func lendRDMA(t *testing.T, d *Driver, mode rdma.Mode, name string, number int) rdmaPod {
	t.Helper()
	nic, _ := machineOf(t, d, name)
	pod := rdmaPod{
		ns: hosttest.NewNamespace(t), device: rdmaOf(t, name),
		address: fmt.Sprintf("10.99.0.%d", number), gid: fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a63:%04x", number),
	}
	nic.RDMA = &model.RDMADevice{Name: pod.device, Software: true}
	m, err := model.New(model.Machine{
		Roots:     []model.PCIRoot{{Name: "pci0000:00"}},
		Functions: []model.PCIFunction{{Address: *nic.PCI, Root: "pci0000:00", Class: 0x020000}},
		NICs:      []model.NIC{nic},
	})
	if err != nil {
		t.Fatal(err)
	}
	parameters := fmt.Sprintf(`{"interface": {"name": "net1", "addresses": ["%s/24"]}}`, pod.address)
	if pod.record, err = d.Plan(claim(parameters, "pci-"+dashes(nic.PCI.String())), m, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Attach(t.Context(), pod.record, pod.ns.Path()); err != nil {
		t.Fatal(err)
	}
	if err := rdma.AddSoftware(pod.ns.Fd(), pod.device, "rxe", "net1"); err != nil {
		t.Fatal(err)
	}
	if mode == rdma.Exclusive {
		// It is made in the first namespace, wherever its interface is.
		if err := rdma.Move(netns.Current, pod.device, pod.ns.Fd()); err != nil {
			t.Fatal(err)
		}
	}
	return pod
}

// rdmaOf is the RDMA device on an interface.
func rdmaOf(t *testing.T, name string) string {
	t.Helper()
	for _, entry := range rdmaOnHost(t) {
		if device, ok := strings.CutSuffix(entry, " on "+name); ok {
			return device
		}
	}
	t.Fatalf("interface %s has no RDMA device: there are %v", name, rdmaOnHost(t))
	return ""
}

// inPod is a shell's script run where a container would be: in the pod's namespace,
// with its view of /sys, in which RDMA devices of other namespaces do not show.
func inPod(t *testing.T, pod rdmaPod, script string) (string, error) {
	t.Helper()
	var out []byte
	var failed error
	pod.ns.Do(t, func() error {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
		out, failed = cmd.CombinedOutput()
		return nil
	})
	return string(out), failed
}

// awaitGID waits until programs in the pod find the address that the claim asks for
// among the RDMA device's: the kernel adds it in its own time.
func awaitGID(t *testing.T, pod rdmaPod) {
	t.Helper()
	eventually(t, "wait for the GID of "+pod.address, func() error {
		out, err := inPod(t, pod, ownSys+fmt.Sprintf("cat /sys/class/infiniband/%s/ports/1/gids/* 2>&1", pod.device))
		if err != nil && !strings.Contains(out, pod.gid) {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// ownSys gives a shell the view of /sys that its network namespace has.
const ownSys = "mount --make-rprivate / && mount -t sysfs pod /sys || exit 1; "

func counter(t *testing.T, pod rdmaPod, name string) int {
	t.Helper()
	out, err := inPod(t, pod, ownSys+"cat /sys/class/net/net1/statistics/"+name)
	if err != nil {
		t.Fatal(err, out)
	}
	n, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// between runs a command of perftest between two pods, the first one serving, and
// returns what the second one's printed.
func between(t *testing.T, pods []rdmaPod, command string) string {
	t.Helper()
	type outcome struct {
		out string
		err error
	}
	served := make(chan outcome, 1)
	go func() {
		out, err := inPod(t, pods[0], ownSys+fmt.Sprintf("timeout 120 %s -d %s 2>&1", command, pods[0].device))
		served <- outcome{out, err}
	}()
	// The server may not listen yet.
	out, err := inPod(t, pods[1], ownSys+fmt.Sprintf(`i=0
until timeout 120 %s -d %s %s 2>&1 || [ $((i=i+1)) -ge 20 ]; do sleep 0.5; done; [ $i -lt 20 ]`, command, pods[1].device, pods[0].address))
	if server := <-served; err != nil || server.err != nil {
		t.Fatalf("%s: %v\n%s\nthe server: %v\n%s", command, err, out, server.err, server.out)
	}
	return out
}
