// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plumbline.dev/plumbline/internal/host/hosttest"
	"plumbline.dev/plumbline/internal/host/kmsg"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
)

// guestRDMA is two NICs of the virtual machine, and the soft RoCE on each.
type guestRDMA struct{ nics, rdma [2]string }

// onGuest makes ready what the checks of this file look at, and undoes it at the end.
func onGuest(t *testing.T) *guestRDMA {
	t.Helper()
	if !hosttest.OnGuest() {
		t.Skip("breaks the host: only on the virtual machine (plumblab guest-test)")
	}
	guestRun(t, "depmod")
	m := scanGuest(t)
	g := &guestRDMA{}
	n := 0
	for _, nic := range m.NICs {
		if nic.PCI == nil || nic.Interface == nil || nic.Withheld != nil || n == len(g.nics) {
			continue
		}
		if f := m.Function(*nic.PCI); f == nil || f.Driver == nil || *f.Driver != "e1000e" {
			continue
		}
		g.nics[n] = nic.Interface.Name
		if nic.RDMA != nil {
			g.rdma[n] = nic.RDMA.Name
		}
		n++
	}
	if n < len(g.nics) {
		t.Fatalf("the machine has %d free NICs of e1000e, want %d", n, len(g.nics))
	}
	for i, nic := range g.nics {
		if g.rdma[i] == "" { // the machine has it on some of its NICs
			g.rdma[i] = fmt.Sprintf("doctor%d", i)
			guestRun(t, "rdma link add "+g.rdma[i]+" type rxe netdev "+nic)
			t.Cleanup(func() { guestRun(t, "rdma link delete "+g.rdma[i]) })
		}
		guestRun(t, fmt.Sprintf("ip address add 10.77.0.%d/24 dev %s", i+1, nic))
		guestRun(t, "ip link set "+nic+" mtu 9000 up")
		t.Cleanup(func() {
			guestRun(t, "ip address flush dev "+nic)
			guestRun(t, "ip link set "+nic+" mtu 1500")
		})
	}
	return g
}

func guestRun(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	if out, err := exec.CommandContext(context.Background(), words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// scanGuest has soft RoCE on a NIC count for the NIC's own: doctor judges hardware.
func scanGuest(t *testing.T) *model.Machine {
	t.Helper()
	links, err := inventory.OpenNetlink(netns.Current, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer links.Close()
	m, _, err := inventory.Scan(t.Context(), inventory.Sources{Sys: os.DirFS("/sys"), Links: links}, inventory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.NICs {
		if r := m.NICs[i].RDMA; r != nil {
			r.Software = false
		}
	}
	return m
}

// say are the findings of a check, as "VERDICT FOUND", of what has a word in its subject or
// source.
func (g *guestRDMA) say(t *testing.T, check, about string) (said []string) {
	t.Helper()
	log := func() (io.ReadCloser, error) { return kmsg.Open("/dev/kmsg") }
	i := slices.IndexFunc(Checks(), func(c Check) bool { return c.Name == check })
	r := &report{check: Checks()[i]}
	r.check.run(Host{Machine: scanGuest(t), Files: os.DirFS("/"), Log: log}, r)
	for _, f := range r.findings {
		if strings.Contains(f.Subject, about) || strings.Contains(f.Source, about) {
			said = append(said, string(f.Verdict)+" "+f.Found)
		}
	}
	return said
}

// await waits until some finding of a check begins with words, and none with others: links
// and devices come and go in their own time.
func (g *guestRDMA) await(t *testing.T, check, about, want, not string) {
	t.Helper()
	begins := func(with string) func(string) bool {
		return func(s string) bool { return strings.HasPrefix(s, with) }
	}
	var said []string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		said = g.say(t, check, about)
		if slices.ContainsFunc(said, begins(want)) && (not == "" || !slices.ContainsFunc(said, begins(not))) {
			return
		}
	}
	t.Errorf("%s of %q says %q; want %q, and not %q", check, about, said, want, not)
}

func guestWrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestGuestBroken breaks one thing of a real kernel at a time, and mends it: a check says
// so, and no longer says so.
func TestGuestBroken(t *testing.T) {
	g := onGuest(t)
	first, second := g.nics[0], g.nics[1]
	pages := func(node, n int) func() {
		return func() {
			guestWrite(t, filepath.Join("/", pagesOf(node), "hugepages-2048kB/nr_hugepages"), fmt.Sprint(n))
		}
	}
	home := 0
	for _, n := range scanGuest(t).NICs {
		if n.Interface != nil && n.Interface.Name == first && n.NUMANode != nil {
			home = *n.NUMANode
		}
	}
	sysctl := func(key, value string) func() {
		return func() { guestWrite(t, "/proc/sys/"+key, value) }
	}
	run := func(lines ...string) func() {
		return func() {
			for _, line := range lines {
				guestRun(t, line)
			}
		}
	}
	verbs := uverbsOf(t, g.rdma[0])
	rename := func(from, to string) func() {
		return func() {
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
	}
	both := func(all ...func()) func() {
		return func() {
			for _, do := range all {
				do()
			}
		}
	}
	arp := "net/ipv4/conf/" + first + "/"
	both(sysctl(arp+"rp_filter", "0"), sysctl("net/ipv4/conf/all/rp_filter", "0"), sysctl(arp+"arp_announce", "2"))()
	for _, tc := range []struct {
		name, check, about string
		broken, mended     func()
		wrong              string
	}{
		{"pages move", "numa-balancing", "", sysctl("kernel/numa_balancing", "1"), sysctl("kernel/numa_balancing", "0"), "wrong 1"},
		{"huge pages of another node", "hugepages", fmt.Sprintf("node%d/", home), both(pages(home, 0), pages(1-home, 4)), both(pages(home, 4), pages(1-home, 0)), "wrong hugepages-2048kB 0"},
		{"a module is gone", "rdma-modules", "", run("modprobe -r rdma_ucm"), run("modprobe rdma_ucm"), "wrong not loaded: "},
		{"so is its device", "rdma-devices", "rdma_cm", run("modprobe -r rdma_ucm"), run("modprobe rdma_ucm"), "wrong is not there"},
		{"verbs are gone", "rdma-devices", first, rename(verbs, verbs+".aside"), rename(verbs+".aside", verbs), "wrong is not there"},
		{"a link is down", "links", first, run("ip link set " + first + " down"), run("ip link set " + first + " up"), "wrong down"},
		{"its port is down", "rdma-ports", first, run("ip link set " + first + " down"), run("ip link set " + first + " up"), "wrong DOWN"},
		{"small packets", "mtu", second, run("ip link set " + second + " mtu 1500"), run("ip link set " + second + " mtu 9000"), "wrong 1500"},
		{"answers for others", "arp", arp + "arp_ignore", sysctl(arp+"arp_ignore", "0"), sysctl(arp+"arp_ignore", "1"), "wrong arp_ignore 0"},
		{"a link that filters", "arp", arp + "rp_filter", sysctl(arp+"rp_filter", "1"), sysctl(arp+"rp_filter", "2"), "wrong rp_filter 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.broken()
			g.await(t, tc.check, tc.about, tc.wrong, "")
			tc.mended()
			g.await(t, tc.check, tc.about, "ok ", "wrong")
		})
	}
	pages(home, 0)()
}

// TestGuestSpare: a NIC that nobody has set up is told of and not judged.
func TestGuestSpare(t *testing.T) {
	g := onGuest(t)
	guestRun(t, "ip address flush dev "+g.nics[0])
	guestRun(t, "ip link set "+g.nics[0]+" down")
	g.await(t, "links", g.nics[0], "ok down: "+whySpare, "wrong")
	g.await(t, "rdma-ports", g.nics[0], "ok DOWN", "wrong")
}

// TestGuestOpenVerbs: who has verbs open hangs from the NIC's driver.
func TestGuestOpenVerbs(t *testing.T) {
	g := onGuest(t)
	verbs := uverbsOf(t, g.rdma[1])
	who := fmt.Sprintf("process %d (", os.Getpid())
	for _, said := range g.say(t, "driver-reload", "") {
		if strings.Contains(said, who) {
			t.Errorf("before: %s", said)
		}
	}
	f, err := os.OpenFile(verbs, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	said := g.say(t, "driver-reload", "e1000e")
	if len(said) != 1 || !strings.Contains(said[0], who) || !strings.Contains(said[0], verbs+" of "+g.rdma[1]+" open") {
		t.Errorf("%q, want %s and %s", said, who, verbs)
	}
}

// TestGuestForgedLog: what a program writes into the kernel's log is there, and not the
// kernel's word.
func TestGuestForgedLog(t *testing.T) {
	g := onGuest(t)
	const forged = "mlx5_core 0000:00:00.0: Fatal error 1 detected"
	guestWrite(t, "/dev/kmsg", "<0>"+forged+"\n") // no record before its line ends
	log, err := kmsg.Open("/dev/kmsg")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	there := false
	for record, err := range kmsg.Records(log) {
		if err != nil {
			t.Fatal(err)
		}
		there = there || record.Text == forged
	}
	if said := g.say(t, "kernel-log", ""); !there || len(said) == 0 || strings.Contains(strings.Join(said, ""), forged) {
		t.Errorf("the message is in the log: %v; kernel-log says %q; want that it is, and nothing of it", there, said)
	}
}

// uverbsOf is the device of verbs of an RDMA device.
func uverbsOf(t *testing.T, rdma string) string {
	t.Helper()
	for _, n := range scanGuest(t).NICs {
		if n.RDMA != nil && n.RDMA.Name == rdma {
			for _, c := range n.RDMA.CharDevices {
				if strings.Contains(c, "/uverbs") {
					return c
				}
			}
		}
	}
	t.Fatalf("%s has no device of verbs", rdma)
	return ""
}
