// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nearest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/affinity"
)

const (
	gpuClass = 0x030200
	nicClass = 0x020000
)

// tree makes a machine of words such as "0/a: gpu nic; 1/b: nic": NUMA node, root,
// then the functions of one switch below it. A NIC of another make is a "vf". Each
// node has four CPUs.
func tree(t testing.TB, text string) (m *model.Machine, gpus, nics []model.PCIAddress) {
	t.Helper()
	var parts model.Machine
	roots := map[string]bool{}
	for i, line := range strings.Split(text, ";") {
		place, devices, _ := strings.Cut(strings.TrimSpace(line), ":")
		var node int
		var root string
		if _, err := fmt.Sscanf(place, "%d/%s", &node, &root); err != nil {
			t.Fatal(err)
		}
		bus := uint8(0x10 * (i + 1))
		if !roots[root] {
			roots[root] = true
			parts.Roots = append(parts.Roots, model.PCIRoot{Name: root, NUMANode: &node})
		}
		port, up := model.PCIAddress{Bus: bus}, model.PCIAddress{Bus: bus + 1}
		parts.Functions = append(parts.Functions,
			model.PCIFunction{Address: port, Root: root, NUMANode: &node}, model.PCIFunction{Address: up, Root: root, Parent: &port, NUMANode: &node})
		for k, word := range strings.Fields(devices) {
			down := model.PCIAddress{Bus: bus + 2, Device: uint8(k)}
			f := model.PCIFunction{Address: model.PCIAddress{Bus: bus + 3, Device: uint8(k)}, Root: root, Parent: &down, NUMANode: &node, Class: nicClass}
			switch word {
			case "gpu":
				f.Class = gpuClass
				gpus = append(gpus, f.Address)
			case "vf":
				f.Device = 1
				nics = append(nics, f.Address)
			default:
				nics = append(nics, f.Address)
			}
			parts.Functions = append(parts.Functions, model.PCIFunction{Address: down, Root: root, Parent: &up, NUMANode: &node}, f)
		}
		if !slices.ContainsFunc(parts.NUMANodes, func(n model.NUMANode) bool { return n.ID == node }) {
			parts.NUMANodes = append(parts.NUMANodes, model.NUMANode{ID: node, CPUs: cpuset.New(4*node, 4*node+1, 4*node+2, 4*node+3)})
		}
	}
	m, err := model.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return m, gpus, nics
}

// said is the answer in short, such as "PIX<SYS": it is SYS and could be PIX.
func said(list []Pair) string {
	var words []string
	for _, p := range list {
		word := p.Is.String()
		if p.Could != p.Is {
			word = p.Could.String() + "<" + word
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestPairs(t *testing.T) {
	for _, test := range []struct {
		name, machine string
		// gpus and nics are numbers in the machine's lists.
		gpus, nics []int
		cpus       cpuset.CPUSet
		want       string
	}{
		{"beside each other", "0/a: gpu nic; 1/b: gpu nic", []int{0}, []int{0}, cpuset.New(), "PIX"},
		{"on the wrong node", "0/a: gpu nic; 1/b: gpu nic", []int{0}, []int{1}, cpuset.New(), "PIX<SYS"},
		{"CPUs on the other node", "0/a: gpu nic; 1/b: gpu nic", []int{0}, []int{0}, cpuset.New(4), "PIX NODE<SYS NODE<SYS"},
		{"more CPUs than a node has", "0/a: gpu nic; 1/b: gpu nic", []int{0}, []int{0}, cpuset.New(0, 1, 2, 3, 4), "PIX SYS SYS"},
		{"below two host bridges", "0/a: gpu nic; 0/b: gpu nic", []int{0}, []int{1}, cpuset.New(), "PIX<NODE"},
		{"below one root by bridges that nobody tells", "0/a: gpu nic; 0/a: gpu nic", []int{0}, []int{1}, cpuset.New(), "ROOT"},
		{"nothing nearer on this machine", "0/a: gpu; 1/b: nic", []int{0}, []int{0}, cpuset.New(), "SYS"},
		{"CPUs can be beside one of them", "0/a: gpu; 1/b: nic", []int{0}, []int{0}, cpuset.New(4, 5), "SYS SYS NODE"},
		{"each NIC has its GPU", "0/a: gpu nic; 1/b: gpu nic", []int{0, 1}, []int{0, 1}, cpuset.New(), "PIX PIX"},
		{"one pair of two is near", "0/a: gpu nic nic; 1/b: gpu nic; 1/c: gpu", []int{0, 2}, []int{0, 1}, cpuset.New(), "PIX PIX<SYS"},
		{"two GPUs share the one NIC", "0/a: gpu gpu nic; 1/b: gpu gpu nic", []int{0, 1}, []int{0}, cpuset.New(), "PIX PIX"},
		{"two GPUs far from each other", "0/a: gpu gpu nic; 1/b: gpu gpu nic", []int{0, 2}, []int{0}, cpuset.New(), "PIX PIX<SYS"},
		{"more GPUs than hang beside a NIC", "0/a: gpu gpu nic; 1/b: gpu gpu nic", []int{0, 1, 2}, []int{0}, cpuset.New(), "PIX PIX SYS"},
		{"a NIC of another make is no choice", "0/a: gpu nic; 1/b: vf", []int{0}, []int{1}, cpuset.New(), "SYS"},
		{"two makes", "0/a: gpu nic vf; 1/b: gpu nic vf", []int{0}, []int{0, 3}, cpuset.New(), "PIX PIX<SYS"},
		{"NIC and CPUs alone", "0/a: nic; 1/b: nic", nil, []int{0}, cpuset.New(5), "NODE<SYS"},
		{"CPUs beside the devices of both nodes", "0/a: gpu nic; 1/b: gpu nic", []int{0, 1}, []int{0, 1}, cpuset.New(0, 4), "PIX PIX SYS SYS SYS SYS"},
		{"CPUs of two nodes for one GPU", "0/a: gpu; 1/b: gpu", []int{0}, nil, cpuset.New(0, 4), "NODE<SYS"},
		{"GPUs and CPUs alone", "0/a: gpu; 1/b: gpu", []int{0, 1}, nil, cpuset.New(5), "NODE SYS"},
		{"a NIC alone", "0/a: nic", nil, []int{0}, cpuset.New(), ""},
		{"nothing", "0/a: nic", nil, nil, cpuset.New(0), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, gpus, nics := tree(t, test.machine)
			g := Group{CPUs: test.cpus}
			for _, i := range test.gpus {
				g.GPUs = append(g.GPUs, gpus[i])
			}
			for _, i := range test.nics {
				g.NICs = append(g.NICs, nics[i])
			}
			if got := said(New(m).Pairs(g)); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// What the pod has besides, and what is never offered, is no choice.
func TestNotToBeHad(t *testing.T) {
	for name, change := range map[string]func(m *model.Machine, g *Group, near model.PCIAddress){
		"had besides": func(_ *model.Machine, g *Group, near model.PCIAddress) { g.Others = []model.PCIAddress{near} },
		"withheld": func(m *model.Machine, _ *Group, near model.PCIAddress) {
			m.NICs = []model.NIC{{PCI: &near, Interface: &model.Interface{Name: "eth0"}, Withheld: ptr.To("carries the default route")}}
		},
	} {
		m, gpus, nics := tree(t, "0/a: gpu nic; 1/b: nic")
		g := Group{GPUs: gpus, NICs: nics[1:]}
		if got := said(New(m).Pairs(g)); got != "PIX<SYS" {
			t.Errorf("to be had: %q", got)
		}
		change(m, &g, nics[0])
		if got := said(New(m).Pairs(g)); got != "SYS" {
			t.Errorf("%s: %q", name, got)
		}
	}
	m, gpus, nics := tree(t, "0/a: gpu nic; 1/b: nic")
	m.NICs = []model.NIC{{PCI: &nics[0], Withheld: ptr.To("its network interface is in another network namespace")}}
	if got := said(New(m).Pairs(Group{GPUs: gpus, NICs: nics[1:]})); got != "PIX<SYS" {
		t.Errorf("held by another pod: %q", got)
	}
	m, _, nics = tree(t, "0/a: nic; 1/b: gpu")
	g := Group{NICs: nics, CPUs: cpuset.New(4), OtherCPUs: cpuset.New(0, 1, 2, 3)}
	if got := said(New(m).Pairs(g)); got != "SYS" {
		t.Errorf("the CPUs beside the NIC are had besides: %q", got)
	}
}

// What is not known is not called far.
func TestUnknownPlaces(t *testing.T) {
	m, gpus, nics := tree(t, "0/a: gpu nic; 1/b: nic")
	m.Function(nics[1]).NUMANode, m.Roots[1].NUMANode = nil, nil
	if got := said(New(m).Pairs(Group{GPUs: gpus, NICs: nics[1:]})); got != "?" {
		t.Errorf("%q", got)
	}
}

// TestEveryPlacement compares with all placements there are. Of one device of
// each kind the answer is exact; of more, what is called possible is.
func TestEveryPlacement(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	far := 0
	for range 400 {
		m, gpus, nics := tree(t, randomTree(random))
		if len(gpus) == 0 || len(nics) == 0 {
			continue
		}
		g := Group{GPUs: some(random, gpus, 2), NICs: some(random, nics, 2)}
		if random.IntN(3) > 0 {
			g.CPUs = cpuset.New(random.IntN(4 * len(m.NUMANodes)))
		}
		on := New(m)
		answer := on.Pairs(g)
		better := false
		for _, other := range placements(m, gpus, nics, g) {
			better = better || dominates(on.Pairs(other), answer)
		}
		claimed := slices.ContainsFunc(answer, func(p Pair) bool { return p.Could != p.Is })
		exact := len(g.GPUs) == 1 && len(g.NICs) == 1
		if claimed && !better || exact && better && !claimed {
			t.Fatalf("%+v: %s, and a nearer placement: %t", g, said(answer), better)
		}
		if claimed {
			far++
		}
	}
	if far < 50 {
		t.Errorf("only %d placements were far: the machines are no test", far)
	}
}

func randomTree(random *rand.Rand) string {
	var lines []string
	for i := range 2 + random.IntN(3) {
		line := fmt.Sprintf("%d/%c:", i%2, 'a'+rune(i))
		for range random.IntN(3) {
			line += []string{" gpu", " nic"}[random.IntN(2)]
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ";")
}

func some(random *rand.Rand, list []model.PCIAddress, most int) []model.PCIAddress {
	list = slices.Clone(list)
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:1+random.IntN(min(most, len(list)))]
}

// placements are all choices of as many devices, and of a node for the CPUs.
func placements(m *model.Machine, gpus, nics []model.PCIAddress, g Group) []Group {
	var out []Group
	for _, a := range choices(gpus, len(g.GPUs)) {
		for _, b := range choices(nics, len(g.NICs)) {
			if g.CPUs.IsEmpty() {
				out = append(out, Group{GPUs: a, NICs: b})
				continue
			}
			for _, n := range m.NUMANodes {
				out = append(out, Group{GPUs: a, NICs: b, CPUs: cpuset.New(n.CPUs.List()[:g.CPUs.Size()]...)})
			}
		}
	}
	return out
}

func choices(list []model.PCIAddress, n int) [][]model.PCIAddress {
	if n == 0 {
		return [][]model.PCIAddress{nil}
	}
	var out [][]model.PCIAddress
	for i := range list {
		for _, rest := range choices(list[i+1:], n-1) {
			out = append(out, append([]model.PCIAddress{list[i]}, rest...))
		}
	}
	return out
}

// dominates says whether one is nowhere farther than another, and somewhere
// nearer, by its pairs in order.
func dominates(one, other []Pair) bool {
	somewhere := false
	for i := range one {
		if one[i].Is > other[i].Is {
			return false
		}
		somewhere = somewhere || one[i].Is < other[i].Is
	}
	return somewhere
}

// A machine with very many virtual functions costs no more than a bounded look.
func TestManyFunctions(t *testing.T) {
	text := "0/a: gpu nic"
	for i := range 12 {
		text += fmt.Sprintf("; 1/r%d:%s", i, strings.Repeat(" nic", 30))
	}
	m, gpus, nics := tree(t, text)
	on := New(m)
	if got := on.Pairs(Group{GPUs: gpus, NICs: nics[300:301]}); got[0].Is != affinity.SYS || got[0].Could != affinity.PIX {
		t.Errorf("%s", said(got))
	}
	if len(on.classes) > 2*maxCandidates {
		t.Errorf("%d classes asked for", len(on.classes))
	}
}
