// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"bytes"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
)

const status = "Name:\tbad\\nCpus_allowed_list:\t9\nUmask:\t0022\nCpus_allowed:\t3c\nCpus_allowed_list:\t2-5\nMems_allowed:\t1\nMems_allowed_list:\t0\n"

func TestParseStatus(t *testing.T) {
	s, err := ParseStatus([]byte(status))
	if err != nil || s.CPUs.String() != "2-5" || s.Mems.String() != "0" {
		t.Errorf("got %+v, %v; want CPUs 2-5 and memory node 0", s, err)
	}
	for _, text := range []string{"", "Name:\tx\nCpus_allowed_list:\t0-99999\nMems_allowed_list:\t0\n", "Name:\tx\nCpus_allowed_list:\t0\n"} {
		if s, err := ParseStatus([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, s)
		}
	}
}

const stat = "7 (a) R 1) S 1 7 7 0 -1 4194560 1 0 0 0 120 30 0 0 20 0 4 0 777 1 1 1 1 1 1 1 1 1 0 0 0 0 0 0 17 5 0 0 0 0 0 1 1 1 1 1 1 1 0\n"

func TestParseStat(t *testing.T) {
	s, err := ParseStat([]byte(stat))
	if want := (Stat{State: 'S', Ticks: 150, Start: 777, CPU: 5}); err != nil || s != want {
		t.Errorf("got %+v, %v; want %+v", s, err, want)
	}
	for _, text := range []string{"", "7 (x)", "7 (x) S 1 2 3", strings.Replace(stat, " 17 5 ", " 17 -1 ", 1), strings.Replace(stat, ") S 1 7", ") running 1 7", 1)} {
		if s, err := ParseStat([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, s)
		}
	}
}

func TestEachContainerID(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for _, text := range []string{
		"0::/kubepods/burstable/podf3a1/" + id + "\n",
		"0::/../../kubepods-podf3a1.slice/cri-containerd-" + id + ".scope/inner\n",
		"12:cpuset:/kubepods/podf3a1/" + id,
	} {
		var got []string
		EachContainerID([]byte(text), func(id []byte) bool { got = append(got, string(id)); return true })
		if !slices.Equal(got, []string{id}) {
			t.Errorf("%q: got %q", text, got)
		}
	}
	EachContainerID([]byte("0::/"+id+"0/"+id[1:]), func(found []byte) bool {
		t.Errorf("%q is no id", found)
		return true
	})
}

const netDev = "Inter-|   Receive |  Transmit\n face |bytes    packets|bytes\n    lo: 1 2 3\n  a:b: 1 2\n  eth1: 0 0\n"

func TestParseNetDev(t *testing.T) {
	names, err := ParseNetDev([]byte(netDev))
	if err != nil || !slices.Equal(names, []string{"lo", "a:b", "eth1"}) {
		t.Errorf("got %q, %v", names, err)
	}
	if names, err := ParseNetDev([]byte("x\ny\nno figures\n")); err == nil {
		t.Errorf("read as %q", names)
	}
}

const mountInfo = "27 1 254:0 / / rw,relatime - overlay overlay rw\n" +
	"36 27 0:35 / /dev rw shared:1 master:2 - tmpfs tmpfs rw\n" +
	"37 36 0:36 / /dev rw - fuse.sshfs a@b: rw\n" +
	"38 36 0:37 / /dev/a\\040b\\134 rw - nfs4 server:/x rw\n"

func TestParseMountInfo(t *testing.T) {
	got, err := ParseMountInfo([]byte(mountInfo))
	want := Mounts{"/": {"overlay"}, "/dev": {"tmpfs", "fuse.sshfs"}, `/dev/a b\`: {"nfs4"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, text := range []string{"x\n", "36 27 0:35 / /dev rw\n", "36 27 0:35 / /dev rw -\n"} {
		if got, err := ParseMountInfo([]byte(text)); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestDefaultRoutes(t *testing.T) {
	route := "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n" +
		"eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\neth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"
	zero := strings.Repeat("0", 32)
	ipv6 := zero + " 00 " + zero + " 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth2\n" +
		zero + " 00 " + zero + " 00 " + zero + " ffffffff 00000001 00000000 00200200 lo\n"
	got := map[string]bool{}
	if err := errors.Join(DefaultRoutes(strings.NewReader(route), got), DefaultIPv6Routes(strings.NewReader(ipv6), got)); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !got["eth0"] || !got["eth2"] {
		t.Errorf("got %v, want eth0 and eth2", got)
	}
}

func TestGrantedCPUs(t *testing.T) {
	got, err := GrantedCPUs([]byte("PASSWORD=x\x00DRA_CPUSET_1-2=4-5\x00PATH=/\x00"))
	if err != nil || len(got) != 1 || !got["1-2"].Equals(cpuset.New(4, 5)) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := GrantedCPUs([]byte("DRA_CPUSET_x=0-2147483647\x00")); err == nil {
		t.Errorf("a range that would fill the memory was read as %v", got)
	}
}

func TestParseGPUMinorAndMemory(t *testing.T) {
	minor, err := ParseGPUMinor([]byte("Model: \t NVIDIA H200\nDevice Minor: \t 7\nGPU Excluded:\t No\n"))
	if err != nil || minor != 7 {
		t.Errorf("got %d, %v", minor, err)
	}
	if minor, err := ParseCapabilityMinor([]byte("DeviceFileMinor: 84\nDeviceFileMode: 292\n")); err != nil || minor != 84 {
		t.Errorf("got %d, %v", minor, err)
	}
	if uuid, err := ParseGPUUUID([]byte("Model: \t NVIDIA H200\nGPU UUID: \t GPU-4e2f3a51-0000\n")); err != nil || uuid != "GPU-4e2f3a51-0000" {
		t.Errorf("got %q, %v", uuid, err)
	}
	if uuid, err := ParseGPUUUID([]byte("GPU UUID: \t GPU-????????-????\n")); err == nil {
		t.Errorf("got %q of a GPU that is not initialised", uuid)
	}
	nodes := ParseNUMAStat([]byte("anon N0=4096 N1=0\nfile N0=1 N1=2\n"))
	if len(nodes) != 2 || nodes[0] != 4096 {
		t.Errorf("got %v", nodes)
	}
}

func TestParseMIGMinors(t *testing.T) {
	minors := ParseMIGMinors([]byte("config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu10/gi2/ci3/access 1500\n" +
		"gpu0/gi1 3\ngpu0/ci1/access 4\ngpu0/gi1/ci0/x/access 5\ngpu-1/gi1/access 6\ngpu0/gi1/access x\n"))
	if len(minors) != 3 || minors[12] != (MIGInstance{GPU: 0, Instance: 1}) {
		t.Errorf("got %v", minors)
	}
	if m := minors[1500]; m.GPU != 10 || m.Instance != 2 || m.Compute == nil || *m.Compute != 3 {
		t.Errorf("got %+v", m)
	}
}

func TestParseCharMajor(t *testing.T) {
	const text = "Character devices:\n  1 mem\n510 nvidia-caps-imex-channels\n511 nvidia-caps\n\nBlock devices:\n259 blkext\n"
	if major, ok := ParseCharMajor([]byte(text), "nvidia-caps"); !ok || major != 511 {
		t.Errorf("got %d, %t", major, ok)
	}
	if major, ok := ParseCharMajor([]byte(text), "blkext"); ok {
		t.Errorf("got %d of a block device", major)
	}
}

// FuzzDecoders: whatever stands there, nothing panics and no set is beyond its
// bound.
func FuzzDecoders(f *testing.F) {
	for _, text := range []string{status, stat, netDev, mountInfo, "DRA_CPUSET_a=1-2\x00", "Device Minor: 3\n", "anon N0=1\n", "gpu0/gi1/ci0/access 13\n", "Character devices:\n  1 mem\n", "0::/" + strings.Repeat("a", idLength), limits, fibTrie, ifINET6} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		bounded := func(sets ...cpuset.CPUSet) {
			for _, s := range sets {
				if !s.IsEmpty() && s.List()[s.Size()-1] >= maxID {
					t.Errorf("%q holds %d", text, s.List()[s.Size()-1])
				}
			}
		}
		if s, err := ParseStatus(text); err == nil {
			bounded(s.CPUs, s.Mems)
		}
		if s, err := ParseStat(text); err == nil && (s.CPU < 0 || s.CPU >= maxID) {
			t.Errorf("%q ran on CPU %d", text, s.CPU)
		}
		if names, err := ParseNetDev(text); err == nil && slices.Contains(names, "") {
			t.Errorf("%q has an interface without a name", text)
		}
		_, _ = ParseMemlock(text)
		ParseLocksMemory(text)
		if pid, err := ParseParent(text); err == nil && pid < 0 {
			t.Errorf("%q: parent %d", text, pid)
		}
		addresses := map[netip.Addr]bool{}
		_ = LocalAddresses(bytes.NewReader(text), addresses)
		_ = LocalIPv6Addresses(bytes.NewReader(text), addresses)
		for a := range addresses {
			if !a.IsValid() {
				t.Errorf("%q has an address that is none", text)
			}
		}
		if told, err := GrantedCPUs(text); err == nil {
			for _, set := range told {
				bounded(set)
			}
		}
		if minor, err := ParseGPUMinor(text); err == nil && minor < 0 {
			t.Errorf("minor %d", minor)
		}
		if uuid, err := ParseGPUUUID(text); err == nil && uuid == "" {
			t.Error("an empty UUID")
		}
		for minor, m := range ParseMIGMinors(text) {
			if minor < 0 || m.GPU < 0 || m.Instance < 0 {
				t.Errorf("%d: %+v", minor, m)
			}
		}
		_, _ = ParseCharMajor(text, "mem")
		EachContainerID(text, func(id []byte) bool {
			if len(id) != idLength {
				t.Errorf("id %q", id)
			}
			return true
		})
		_ = DefaultRoutes(bytes.NewReader(text), map[string]bool{})
		_ = DefaultIPv6Routes(bytes.NewReader(text), map[string]bool{})
		if mounts, err := ParseMountInfo(text); err == nil {
			for path, types := range mounts {
				if path == "" || slices.Contains(types, "") {
					t.Errorf("%q: mount point %q of types %q", text, path, types)
				}
			}
		}
		ParseNUMAStat(text)
	})
}
