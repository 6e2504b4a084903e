// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"plumbline.dev/plumbline/internal/model"
)

// pairedGPU is what a machine says of the NIC at an address.
func pairedGPU(t *testing.T, m *model.Machine, nic string) (gpu, direct string) {
	t.Helper()
	for _, n := range m.NICs {
		if n.PCI == nil || n.PCI.String() != nic || n.Port != nil {
			continue
		}
		if n.PairedGPU != nil {
			gpu = n.PairedGPU.String()
		}
		if n.DataDirect != nil {
			direct = n.DataDirect.String()
		}
		return gpu, direct
	}
	t.Fatalf("no NIC %s", nic)
	return "", ""
}

// A topology file is believed where the PCIe tree says nothing, and of GPUs that are
// there.
func TestPairsThatWereTold(t *testing.T) {
	const gpu = "0000:12:00.0"
	told := map[model.PCIAddress]model.PCIAddress{
		newAddress("0000:11:00.0"): newAddress(gpu),            // of one published root
		newAddress("0000:81:00.0"): newAddress(gpu),            // of another
		newAddress("0000:83:00.0"): newAddress("0000:ee:00.0"), // not there
		newAddress("0000:ef:00.0"): newAddress(gpu),            // a NIC that is not there
	}
	m, problems := scanned(t, Sources{Sys: tree(t, small())}, Options{PairedGPUs: told})
	for nic, want := range map[string]string{"0000:11:00.0": "", "0000:81:00.0": gpu, "0000:83:00.0": ""} {
		if got, _ := pairedGPU(t, m, nic); got != want {
			t.Errorf("%s is paired with %q, want %q", nic, got, want)
		}
	}
	if said := problemLines(problems); !strings.Contains(said, "is said to belong to GPU 0000:ee:00.0, which the machine does not have") {
		t.Errorf("problems:\n%s", said)
	}
}

// directs is the small machine with Data Direct functions below the GPU's root, by what
// the vital product data of functions says.
func directs(t *testing.T, functions []string, vpd map[string]string) fstest.MapFS {
	t.Helper()
	return withDirects(t, small(), functions, vpd)
}

// withDirects is directs of another machine with that root.
func withDirects(t *testing.T, b *builder, functions []string, vpd map[string]string) fstest.MapFS {
	t.Helper()
	for _, f := range functions {
		b.function("pci0000:10/"+f, "0x080100", 0)
	}
	sys := tree(t, b)
	for _, f := range functions {
		sys["devices/pci0000:10/"+f+"/device"] = &fstest.MapFile{Data: []byte("0x2100\n")}
	}
	for f, value := range vpd {
		for name := range sys {
			if strings.HasSuffix(name, "/"+f+"/class") {
				data := slices.Concat([]byte{0x90, byte(len(value) + 3), 0, 'V', '3', byte(len(value))}, []byte(value), []byte{0x78})
				sys[strings.TrimSuffix(name, "class")+"vpd"] = &fstest.MapFile{Data: data}
				break
			}
		}
	}
	return sys
}

func TestDataDirect(t *testing.T) {
	const nic, gpu, direct = "0000:81:00.0", "0000:12:00.0", "0000:13:00.0"
	for name, tc := range map[string]struct {
		directs         []string
		vpd             map[string]string
		gpu, own, said  string
		alsoTold        bool
		withoutHardware bool
	}{
		"its own":                 {directs: []string{direct}, vpd: map[string]string{direct: "a", nic: "a"}, gpu: gpu, own: direct},
		"another NIC's":           {directs: []string{direct}, vpd: map[string]string{direct: "a", nic: "b"}},
		"two of its own":          {directs: []string{direct, "0000:14:00.0"}, vpd: map[string]string{direct: "a", "0000:14:00.0": "a", nic: "a"}, said: "2 Data Direct functions are its own"},
		"one that does not say":   {directs: []string{direct}, vpd: map[string]string{nic: "a"}, said: "whose Data Direct function is whose is not known"},
		"a NIC without such data": {directs: []string{direct}, vpd: map[string]string{direct: "a"}},
		"and a topology file":     {directs: []string{direct}, vpd: map[string]string{direct: "a", nic: "a"}, alsoTold: true, own: direct},
		"nobody asks":             {directs: []string{direct}, vpd: map[string]string{direct: "a", nic: "a"}, withoutHardware: true},
	} {
		t.Run(name, func(t *testing.T) {
			opt := Options{DataDirect: NewDataDirect()}
			if tc.withoutHardware {
				opt.DataDirect = nil
			}
			want := tc.gpu
			if tc.alsoTold {
				want = "0000:11:00.0"
				opt.PairedGPUs = map[model.PCIAddress]model.PCIAddress{newAddress(nic): newAddress(want)}
			}
			m, problems := scanned(t, Sources{Sys: directs(t, tc.directs, tc.vpd)}, opt)
			if got, own := pairedGPU(t, m, nic); got != want || own != tc.own {
				t.Errorf("GPU %q by %q, want %q by %q; problems:\n%s", got, own, want, tc.own, problemLines(problems))
			}
			if said := problemLines(problems); tc.said != "" && !strings.Contains(said, tc.said) || tc.said == "" && strings.Contains(said, "Data Direct") {
				t.Errorf("problems, want %q:\n%s", tc.said, said)
			}
		})
	}
}

// Of several NICs whose Data Direct functions are beside GPUs each has the one with its
// place among them, where there are as many; otherwise none is a NIC's own.
func TestDataDirectsBesideGPUs(t *testing.T) {
	const first, second = "0000:81:00.0", "0000:83:00.0"
	for name, tc := range map[string]struct {
		more []string // GPUs beside 0000:12:00.0
		want map[string]string
	}{
		"one for both":     {nil, map[string]string{first: "0000:12:00.0", second: "0000:12:00.0"}},
		"one each":         {[]string{"0000:1a:00.0"}, map[string]string{first: "0000:12:00.0", second: "0000:1a:00.0"}},
		"more of one sort": {[]string{"0000:1a:00.0", "0000:1b:00.0"}, map[string]string{first: "", second: ""}},
	} {
		t.Run(name, func(t *testing.T) {
			b := small()
			for _, gpu := range tc.more {
				b.function("pci0000:10/"+gpu, "0x030200", 0)
			}
			sys := withDirects(t, b, []string{"0000:13:00.0", "0000:14:00.0"},
				map[string]string{"0000:13:00.0": "b", "0000:14:00.0": "a", first: "a", second: "b"})
			m, problems := scanned(t, Sources{Sys: sys}, Options{DataDirect: NewDataDirect()})
			for nic, want := range tc.want {
				if got, direct := pairedGPU(t, m, nic); got != want || direct == "" {
					t.Errorf("%s has GPU %q by %q, want %q; problems:\n%s", nic, got, direct, want, problemLines(problems))
				}
			}
		})
	}
}

// The hardware is asked once.
func TestDataDirectIsRemembered(t *testing.T) {
	const nic, direct = "0000:81:00.0", "0000:13:00.0"
	opt := Options{DataDirect: NewDataDirect()}
	sys := directs(t, []string{direct}, map[string]string{direct: "a", nic: "a"})
	for range 2 {
		m, _ := scanned(t, Sources{Sys: sys}, opt)
		if _, own := pairedGPU(t, m, nic); own != direct {
			t.Fatalf("its own is %q", own)
		}
		for name := range sys {
			if strings.HasSuffix(name, "/vpd") {
				delete(sys, name)
			}
		}
	}
	another := model.PCIFunction{Address: newAddress(nic), Vendor: 0x15b3, Device: 0x1023}
	if value, err := opt.DataDirect.of(sys, &another); err == nil {
		t.Errorf("another NIC in its slot says %q, as the one before it did", value)
	}
}

// vpdReads counts how often vital product data is read, which fails.
type vpdReads struct {
	fstest.MapFS
	n int
}

func (f *vpdReads) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "/vpd") {
		f.n++
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return f.MapFS.Open(name)
}

// A function that does not answer is asked again only when another driver is bound to it,
// or when it was away.
func TestDataDirectErrorsAreRemembered(t *testing.T) {
	known := NewDataDirect()
	sys := &vpdReads{}
	f := model.PCIFunction{Address: newAddress("0000:13:00.0"), Vendor: 0x15b3, Device: 0x2100}
	ask := func(want int) {
		t.Helper()
		for range 3 {
			if _, err := known.of(sys, &f); !errors.Is(err, fs.ErrPermission) {
				t.Fatalf("it says %v", err)
			}
		}
		if sys.n != want {
			t.Errorf("read %d times, want %d", sys.n, want)
		}
	}
	ask(1)
	driver := "mlx5_core"
	f.Driver = &driver
	ask(2)
	known.forget([]model.PCIFunction{f})
	ask(2)
	known.forget(nil)
	ask(3)
}

// Who asks for it has NICs compared by the root of their Data Direct function; NICs
// without one stay as they are.
func TestDataDirectAsRoot(t *testing.T) {
	const nic, direct = "0000:81:00.0", "0000:13:00.0"
	for _, chosen := range []bool{false, true} {
		m, _ := scanned(t, Sources{Sys: directs(t, []string{direct}, map[string]string{direct: "a", nic: "a"})},
			Options{DataDirect: NewDataDirect(), DataDirectAsRoot: chosen})
		for _, n := range m.NICs {
			if want := chosen && n.DataDirect != nil; n.DataDirectAsRoot != want {
				t.Errorf("NIC %v: %t, want %t", n.PCI, n.DataDirectAsRoot, want)
			}
		}
		if _, own := pairedGPU(t, m, nic); own != direct {
			t.Errorf("its own is %q", own)
		}
	}
}
