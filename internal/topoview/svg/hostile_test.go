// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/topoview"
)

// hostileNames are what a name must not be and somewhere is.
var hostileNames = []string{
	"plain0", `<script>alert("1")</script>`, "a&b'c\"d", "]]>", "null\x00byte", "esc\x1b[31mred", "bell\a", "tab\tnew\nline",
	"\xff\xfe\xfd", "\ufffe\uffff", "rtl\u202egnirts", "日本語のインターフェース名", "🧵🪡📐", strings.Repeat("long-", 200), strings.Repeat("W", 300), " ", "",
}

// randomMachine has devices everywhere a device can be: below nested switches,
// on roots of unknown or contradictory nodes, on no root at all, in a loop of
// parents.
func randomMachine(r *rand.Rand) model.Machine {
	var m model.Machine
	m.Name, m.Architecture = randomName(r), randomName(r)
	sockets, cpu := 1+r.IntN(8), 0
	for id := range sockets * (1 + r.IntN(3)) {
		n := model.NUMANode{ID: id, Distances: map[int]int{id: 10, id ^ 1: 21}}
		if r.IntN(3) > 0 {
			n.MemoryBytes = ptr.To(r.Uint64N(1 << 45))
		}
		var list []int
		for range r.IntN(80) {
			c := model.CPU{ID: cpu, Online: r.IntN(20) > 0, NUMANode: ptr.To(id)}
			if r.IntN(10) > 0 {
				c.Core = &model.CoreID{Package: id % sockets, Core: cpu / 2}
			}
			m.CPUs = append(m.CPUs, c)
			list = append(list, cpu)
			cpu++
		}
		n.CPUs = cpuset.New(list...)
		m.NUMANodes = append(m.NUMANodes, n)
	}
	node := func() *int {
		if r.IntN(4) == 0 {
			return nil
		}
		return ptr.To(r.IntN(len(m.NUMANodes)))
	}
	randomPCI(r, &m, node)
	randomDevices(r, &m)
	for i := range r.IntN(4) {
		m.NICs = append(m.NICs, model.NIC{Interface: &model.Interface{Name: "veth" + strconv.Itoa(i)}, NUMANode: node()})
	}
	return m
}

func randomName(r *rand.Rand) string { return hostileNames[r.IntN(len(hostileNames))] }

// randomPCI adds roots and functions, now and then in a loop of parents.
func randomPCI(r *rand.Rand, m *model.Machine, node func() *int) {
	for i := range r.IntN(8) {
		root := model.PCIRoot{Name: fmt.Sprintf("pci%04x:00", i), Published: r.IntN(2) == 0, NUMANode: node()}
		if r.IntN(6) == 0 {
			root.Name = randomName(r) + strconv.Itoa(i)
		}
		m.Roots = append(m.Roots, root)
		for k := range r.IntN(14) {
			f := model.PCIFunction{
				Address: model.PCIAddress{Domain: uint32(i), Bus: uint8(k), Device: uint8(r.IntN(32))}, Root: root.Name,
				Class: []uint32{0x060400, 0x030200, 0x020000, 0x120000, 0x010802, 0x0c0330}[r.IntN(6)], NUMANode: node(),
			}
			if k > 0 && r.IntN(3) > 0 {
				f.Parent = &m.Functions[len(m.Functions)-1-r.IntN(k)].Address
			}
			if r.IntN(2) == 0 {
				f.Link = &model.PCILink{SpeedMTs: 1 + r.IntN(64000), MaxSpeedMTs: 64000, Width: r.IntN(17), MaxWidth: 16}
			}
			m.Functions = append(m.Functions, f)
		}
		if n := len(m.Functions); n > 1 && r.IntN(4) == 0 && m.Functions[n-1].Parent != nil {
			parent := &m.Functions[n-2]
			parent.Parent = &m.Functions[n-1].Address // a loop
		}
	}
}

// randomDevices makes GPUs and NICs of the functions of their classes.
func randomDevices(r *rand.Rand, m *model.Machine) {
	for i, f := range m.Functions {
		switch f.ClassByte() {
		case model.PCIClassDisplay:
			m.GPUs = append(m.GPUs, model.GPU{Index: i, PCI: f.Address, ProductName: randomName(r), NUMANode: f.NUMANode, Simulated: ptr.To("x as " + randomName(r))})
		case model.PCIClassNetwork:
			for p := range 1 + r.IntN(3) {
				n := model.NIC{PCI: ptr.To(f.Address), NUMANode: f.NUMANode, Interface: &model.Interface{Name: randomName(r)}}
				if p > 0 {
					n.Port = ptr.To("p" + strconv.Itoa(p))
				}
				if r.IntN(2) == 0 {
					n.RDMA, n.Withheld = &model.RDMADevice{Name: randomName(r)}, ptr.To(randomName(r))
				}
				m.NICs = append(m.NICs, n)
			}
		}
	}
}

// randomHolders let claims of hostile names hold some devices, some many times.
func randomHolders(r *rand.Rand, m *model.Machine) map[topoview.DeviceID][]topoview.Holder {
	holders := map[topoview.DeviceID][]topoview.Holder{}
	topology := topoview.Build(m, topoview.Options{})
	for _, d := range topology.AllDevices() {
		for range r.IntN(5) {
			id := topoview.DeviceID{Driver: d.Driver, Name: d.Name}
			holders[id] = append(holders[id], topoview.Holder{
				Namespace: "ns", Claim: hostileNames[r.IntN(len(hostileNames))] + strconv.Itoa(r.IntN(40)), Pods: []string{hostileNames[r.IntN(len(hostileNames))]},
			})
		}
	}
	for _, n := range m.NUMANodes {
		id := topoview.DeviceID{Driver: "dra.cpu", Name: fmt.Sprintf("cpudevnuma%03d", n.ID)}
		for range r.IntN(6) {
			h := topoview.Holder{Namespace: "ns", Claim: "cpu" + strconv.Itoa(r.IntN(40)), CPUCount: 4}
			if r.IntN(2) == 0 {
				h.CPUs = n.CPUs
			}
			holders[id] = append(holders[id], h)
		}
	}
	return holders
}

func TestEveryDeviceIsDrawnOnce(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		m, err := model.New(randomMachine(r))
		if err != nil {
			t.Fatal(err)
		}
		picture := draw(t, topoview.Build(m, topoview.Options{Source: hostileNames[r.IntN(len(hostileNames))], Holders: randomHolders(r, m)}))
		drawn := readPicture(t, seed, picture)
		for _, want := range wantDevices(m) {
			if drawn[want] != 1 {
				t.Errorf("seed %d: device %q is drawn %d times", seed, want, drawn[want])
			}
			delete(drawn, want)
		}
		if len(drawn) > 0 {
			t.Errorf("seed %d: drawn and not of the machine: %v", seed, drawn)
		}
	}
}

// wantDevices are the names, or addresses, of what must be drawn.
func wantDevices(m *model.Machine) []string {
	var want []string
	for _, d := range topoview.Build(m, topoview.Options{}).AllDevices() {
		if d.Driver == "" {
			want = append(want, d.Address)
		}
	}
	for _, g := range m.GPUs {
		want = append(want, "gpu-"+strconv.Itoa(g.Index))
	}
	for _, n := range m.NICs {
		switch {
		case n.PCI == nil:
			want = append(want, n.Interface.Name)
		case n.Port != nil:
			want = append(want, "pci-"+strings.NewReplacer(":", "-", ".", "-").Replace(n.PCI.String())+"-"+*n.Port)
		default:
			want = append(want, "pci-"+strings.NewReplacer(":", "-", ".", "-").Replace(n.PCI.String()))
		}
	}
	return want
}

// picture is what readPicture finds in an SVG.
type picture struct {
	width, height float64
	devices       map[string]int
	cards         [][4]float64
}

// readPicture parses a picture as strict XML, counts its devices, and checks
// that cards lie apart from each other and within the picture, and that text
// begins within it.
func readPicture(t *testing.T, seed uint64, svg string) map[string]int {
	t.Helper()
	p := picture{devices: map[string]int{}}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("seed %d: not XML: %v", seed, err)
		}
		if e, ok := token.(xml.StartElement); ok {
			if err := p.element(e); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	}
	for i, a := range p.cards {
		for _, b := range p.cards[:i] {
			if a[0] < b[0]+b[2] && b[0] < a[0]+a[2] && a[1] < b[1]+b[3] && b[1] < a[1]+a[3] {
				t.Errorf("seed %d: cards at %v and %v overlap", seed, a, b)
			}
		}
	}
	return p.devices
}

func (p *picture) element(e xml.StartElement) error {
	a := map[string]string{}
	for _, attr := range e.Attr {
		a[attr.Name.Local] = attr.Value
	}
	switch e.Name.Local {
	case "svg":
		size, err := numbers(a, "width", "height")
		if err != nil {
			return err
		}
		p.width, p.height = size[0], size[1]
	case "g":
		if id, isDevice := a["data-device"]; isDevice {
			p.devices[id]++
		}
	case "rect":
		box, err := numbers(a, "x", "y", "width", "height")
		if err != nil {
			return err
		}
		return p.rectangle([4]float64(box), a["class"])
	case "text":
		at, err := numbers(a, "x", "y")
		if err != nil {
			return err
		}
		if at[0] < 0 || at[1] < 0 || at[0] > p.width || at[1] > p.height {
			return fmt.Errorf("text at %v leaves the picture", at)
		}
	case "script", "image", "foreignObject", "a", "use":
		return fmt.Errorf("<%s> in the picture", e.Name.Local)
	}
	return nil
}

func (p *picture) rectangle(box [4]float64, class string) error {
	const rounding = 0.2
	if class == "pl-card" || strings.HasPrefix(class, "pl-h") {
		p.cards = append(p.cards, box)
	}
	for _, v := range box {
		if v < 0 {
			return fmt.Errorf("rectangle %v (%s) is of negative size or place", box, class)
		}
	}
	if box[0]+box[2] > p.width+rounding || box[1]+box[3] > p.height+rounding {
		return fmt.Errorf("rectangle %v (%s) leaves the picture of %g x %g", box, class, p.width, p.height)
	}
	return nil
}

func numbers(attributes map[string]string, names ...string) ([]float64, error) {
	var list []float64
	for _, name := range names {
		v, err := strconv.ParseFloat(attributes[name], 64)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		list = append(list, v)
	}
	return list, nil
}
