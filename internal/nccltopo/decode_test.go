// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nccltopo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/nccltopo"
)

// dumped is a file in the form in which NCCL writes what it found (NCCL_TOPO_DUMP_FILE):
// with GPUs and network devices, and attributes that are of no use here.
const dumped = `<?xml version="1.0"?>
<!-- of a machine -->
<system version="1" name="of a test">
  <cpu host_hash="0xb5f61d5f5d0bb47a" numaid="1" affinity="00000000,ffffffff,00000003" arch="arm64" vendor="" familyid="143" modelid="7">
    <pci busid="0000:8D:00.0" class="0x060400" vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x100b" link_speed="32.0 GT/s PCIe" link_width="16">
      <pcilink target="0000:ff:00.0"/>
      <pci busid="0000:8f:00.0" class="0x03" link_speed="Unknown" link_width="">
        <gpu dev="3" sm="90" rank="3" gdr="1"><nvlink target="0000:c3:00.0" count="4" tclass="0x068000"><more/></nvlink><c2c bw="45000" count="10"/></gpu>
      </pci>
      <pci busid="0000:90:00.0" class="0x0302"/>
      <pci busid="0000:91:00.0" class="0x020700" link_speed="16 GT/s" link_width="8">
        <nic><net name="mlx5_0" dev="0" speed="400000"/><net name="mlx5_1"/></nic>
      </pci>
      <pci busid="0000:92:00.0" class="0x080100"><nic><net name="mlx5_2"/></nic></pci>
    </pci>
    <pci busid="0000:c0:00.0" class="0x020000"/>
    <nic><net name="eth0"/></nic>
  </cpu>
  <cpu numaid="-1">
    <pci busid="0000:d0:00.0" class="0x020000"/><pci busid="0000:d1:00.0" class="0x120000"/>
  </cpu>
</system>
`

func TestDecode(t *testing.T) {
	got := decode(t, []byte(dumped))
	unknown, known := got.CPUs[1], got.CPUs[0]
	if unknown.NUMANode != nil || *known.NUMANode != 1 || known.CPUs.String() != "0-1,32-63" || known.Arch != "arm64" ||
		*known.FamilyID != 143 || *known.ModelID != 7 || known.Nets[0].Name != "eth0" {
		t.Errorf("CPUs %+v", got.CPUs)
	}
	above := known.Functions[0]
	if above.Address.String() != "0000:8d:00.0" || above.Class != 0x060400 || *above.SubsystemDevice != 0x100b || above.SpeedMTs != 32000 || above.Width != 16 {
		t.Errorf("switch %+v", above)
	}
	gpu := above.Functions[0]
	if diff := cmp.Diff(nccltopo.Function{
		Address: model.PCIAddress{Bus: 0x8f}, Class: 0x030000, GPU: &nccltopo.GPU{Dev: ptr.To(3), SM: ptr.To(90), C2C: true},
	}, gpu); diff != "" {
		t.Errorf("GPU (-want +got):\n%s", diff)
	}
	nic := above.Functions[2]
	if nic.SpeedMTs != 16000 || nic.Width != 8 || len(nic.Nets) != 2 || nic.Nets[1].Name != "mlx5_1" {
		t.Errorf("NIC %+v", nic)
	}
	var pairs []string
	for _, p := range got.Pairs() {
		level := "node"
		if p.Switch != nil {
			level = p.Switch.String()
		}
		pairs = append(pairs, p.GPU.String()+" "+p.NIC.String()+" "+level)
	}
	if diff := cmp.Diff([]string{
		"0000:8f:00.0 0000:91:00.0 0000:8d:00.0", "0000:90:00.0 0000:91:00.0 0000:8d:00.0",
		"0000:8f:00.0 0000:92:00.0 0000:8d:00.0", "0000:90:00.0 0000:92:00.0 0000:8d:00.0",
		"0000:8f:00.0 0000:c0:00.0 node", "0000:90:00.0 0000:c0:00.0 node",
	}, pairs); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[model.PCIAddress]model.PCIAddress{{Bus: 0x91}: {Bus: 0x8f}, {Bus: 0x92}: {Bus: 0x90}}, nccltopo.OneToOne(got.Pairs())); diff != "" {
		t.Errorf("one to one (-want +got):\n%s", diff)
	}
}

// Of GPUs that share several NICs none is a NIC's own, unless there are as many.
func TestOneToOne(t *testing.T) {
	pair := func(gpu, nic uint8) nccltopo.Pair {
		return nccltopo.Pair{GPU: model.PCIAddress{Bus: gpu}, NIC: model.PCIAddress{Bus: nic}, Switch: &model.PCIAddress{}}
	}
	for name, tc := range map[string]struct {
		pairs []nccltopo.Pair
		want  map[model.PCIAddress]model.PCIAddress
	}{
		"a GPU with two NICs":        {[]nccltopo.Pair{pair(1, 3), pair(1, 2)}, map[model.PCIAddress]model.PCIAddress{{Bus: 2}: {Bus: 1}, {Bus: 3}: {Bus: 1}}},
		"two GPUs with a NIC":        {[]nccltopo.Pair{pair(1, 3), pair(2, 3)}, map[model.PCIAddress]model.PCIAddress{}},
		"two GPUs with two NICs":     {[]nccltopo.Pair{pair(2, 4), pair(1, 4), pair(2, 3), pair(1, 3)}, map[model.PCIAddress]model.PCIAddress{{Bus: 3}: {Bus: 1}, {Bus: 4}: {Bus: 2}}},
		"one NUMA node and no more":  {[]nccltopo.Pair{{GPU: model.PCIAddress{Bus: 1}, NIC: model.PCIAddress{Bus: 2}}}, map[model.PCIAddress]model.PCIAddress{}},
		"a file with no pair at all": {nil, map[model.PCIAddress]model.PCIAddress{}},
	} {
		if diff := cmp.Diff(tc.want, nccltopo.OneToOne(tc.pairs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	in := func(s string) string {
		return "<system version=\"1\">\n<cpu numaid=\"0\">\n" + s + "\n</cpu>\n</system>"
	}
	const pci = `<pci busid="0000:01:00.0" class="0x020000"`
	for text, want := range map[string]string{
		"":                     "want an element <system>",
		"<graphs version='1'>": "line 1, <graphs>: want one element <system>",
		"<system version='1'/>\n<system version='1'/>": "line 2, <system>: want one element <system>",
		"<system/>":             `line 1, <system>: version is "", want 1`,
		"<system version='2'/>": `version is "2", want 1`,
		"<system version='1'>":  "line 1: unexpected EOF",
		"<!DOCTYPE s [<!ENTITY a 'b'>]><system version='1'/>":                                           "no declarations",
		"<system version='1'>\n&a;</system>":                                                            "line 2: invalid character entity &a;",
		"<system version='1'>\nwords</system>":                                                          "line 2: text between elements",
		"<system version='1'></cpu></system>":                                                           "line 1: element <system> closed by </cpu>",
		"<system version='1'>\n<cpu/></system>":                                                         "line 2, <cpu>: numaid is missing",
		"<system version='1'><cpu numaid='-2'/></system>":                                               `numaid "-2": want a number from -1`,
		"<system version='1'>\n<pci/></system>":                                                         "line 2, <pci>: want it within <cpu> or <pci>, it is within <system>",
		"<system version='1'><cpu numaid='0'/>\n<cpu numaid='0'/></system>":                             "line 2, <cpu>: NUMA node 0 is listed twice",
		"<system version='1'><cpu numaid='0' affinity='xyz'/></system>":                                 `affinity "xyz": want a mask`,
		"<system version='1'><cpu numaid='0' affinity='1ffffffff'/></system>":                           `affinity "1ffffffff": want a mask`,
		"<system version='1'><cpu numaid='0' affinity='" + strings.Repeat("0,", 2000) + "0'/></system>": "affinity",
		"<system version='1'><cpu numaid='0' familyid='six'/></system>":                                 `familyid "six": want a number`,
		"<system version='1'><cpu numaid='0' numaid='1'/></system>":                                     `"numaid" is given twice`,
		in(`<pci class="0x020000"/>`):                                                                   "line 3, <pci>: busid is missing",
		in(`<pci busid="8f" class="0x020000"/>`):                                                        `line 3, <pci>: busid "8f": want domain:bus:device.function`,
		in(`<pci busid="0000:01:00.0"/>`):                                                               "line 3, <pci>: class is missing",
		in(`<pci busid="0000:01:00.0" class="2"/>`):                                                     `class "2": want 0x and 6 hexadecimal digits`,
		in(pci + "/>\n" + pci + "/>"):                                                                   "line 4, <pci>: busid 0000:01:00.0 is listed twice",
		in(pci + ` vendor="0x15b3f"/>`):                                                                 `vendor "0x15b3f": want 0x and 4 hexadecimal digits`,
		in(pci + ` link_speed="fast"/>`):                                                                `link_speed "fast": want a speed`,
		in(pci + ` link_speed="NaN GT/s"/>`):                                                            `link_speed "NaN GT/s": want a speed`,
		in(pci + ` link_width="1024"/>`):                                                                `link_width "1024": want a number from 0 to 255`,
		in("<gpu dev='0'/>"):                                                                            "line 3, <gpu>: want it within <pci>, it is within <cpu>",
		in(pci + "><gpu dev='x'/></pci>"):                                                               `line 3, <gpu>: dev "x": want a number`,
		in("<nic><net/></nic>"):                                                                         "line 3, <net>: name is missing",
		in(strings.Repeat("<a>", 40) + strings.Repeat("</a>", 40)):                                      "line 3, <a>: more than 32 elements within each other",
		in(strings.Repeat("<a/>", 9000)):                                                                "more than 8192 elements",
		in(functions(513)):                                                                              "line 3, <pci>: more than 512 PCI functions",
		"<system version='1'>" + nodes(129) + "</system>":                                               "line 1, <cpu>: more than 128 NUMA nodes",
		in("<a " + strings.Repeat("b='' ", 65) + "/>"):                                                  "line 3, <a>: more than 64 attributes",
		in("<!--" + strings.Repeat(" ", nccltopo.MaxBytes) + "-->"):                                     "at most 1048576 bytes",
		in(`<pci busid="` + strings.Repeat("x", 1000) + `" class="0x02"/>`):                             `x…": want domain`,
	} {
		topology, err := nccltopo.Decode([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || topology != nil {
			t.Errorf("%.80q: %v, want %s", text, err, want)
		} else if len(err.Error()) > 300 {
			t.Errorf("%.80q: an error of %d characters", text, len(err.Error()))
		}
	}
}

// functions are GPUs and NICs by turns.
func functions(count int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, `<pci busid="%04x:00:00.0" class="0x0%d0000"/>`, i, 2+i%2)
	}
	return text.String()
}

// nodes are NUMA nodes with as many CPUs as Linux can be built for.
func nodes(count int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, `<cpu numaid="%d" affinity="ffffffff%s"/>`, i, strings.Repeat(",ffffffff", 255))
	}
	return text.String()
}

// The largest file makes no more of itself than an agent has room for.
func TestLargestFile(t *testing.T) {
	topology, err := nccltopo.Decode([]byte("<system version='1'><cpu numaid='0'>" + functions(512) + "</cpu></system>"))
	if err != nil {
		t.Fatal(err)
	}
	if pairs := topology.Pairs(); len(pairs) != 256*256 {
		t.Errorf("%d pairs", len(pairs))
	}
	if topology, err = nccltopo.Decode([]byte("<system version='1'>" + nodes(100) + "</system>")); err != nil || topology.CPUs[99].CPUs.Size() != 8192 {
		t.Errorf("%v, want all CPUs", err)
	}
}

// What is read can be written, and is then read as the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(dumped))
	files, err := filepath.Glob("testdata/*.xml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no files: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		topology, err := nccltopo.Decode(data)
		if err != nil {
			return
		}
		nccltopo.OneToOne(topology.Pairs())
		text := topology.Encode()
		if len(text) > nccltopo.MaxBytes {
			return
		}
		if diff := cmp.Diff(topology, decode(t, text), equalCPUs); diff != "" {
			t.Errorf("read again (-first +again):\n%s", diff)
		}
	})
}
