// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package svg

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/topoview"
)

const (
	tileWidth   = 372
	tileHead    = 58
	tileGap     = 16
	tileColumns = 3
	squareStep  = 21
	squareSize  = 17
	rowLabel    = 46
	gaugeHeight = 8
	// shownClaims is how many claims of the cluster are named; hovering names
	// the others.
	shownClaims = 60
	claimColumn = 300
)

// Cluster writes the picture of a cluster: a tile for each node, a square for
// each GPU and NIC in the colour of the claim that holds it.
func Cluster(w io.Writer, cluster *topoview.Cluster) error {
	c := &canvas{colour: map[string]int{}, claims: map[string]topoview.Claim{}}
	for _, claim := range cluster.Claims {
		name := claim.Namespace + "/" + claim.Name
		if _, seen := c.colour[name]; !seen {
			c.colour[name] = len(c.colour)
			c.claims[name] = topoview.Claim{Namespace: claim.Namespace, Name: claim.Name}
		}
	}
	p := newClusterPage(cluster)
	c.open("svg", attributes{
		"xmlns", "http://www.w3.org/2000/svg", "class", "pl", "role", "img", "aria-labelledby", "pl-title pl-desc",
		"width", num(p.w), "height", num(p.h), "viewBox", "0 0 " + num(p.w) + " " + num(p.h),
	})
	c.WriteString("\n" + `<title id="pl-title">Devices of the cluster</title>` + "\n")
	c.WriteString(`<desc id="pl-desc">` + escape(p.headline()) + "</desc>\n")
	c.WriteString("<style>" + styleSheet() + "</style>\n")
	p.draw(c)
	c.close("svg")
	if _, err := io.WriteString(w, c.String()); err != nil {
		return fmt.Errorf("write overview: %w", err)
	}
	return nil
}

// clusterPage is the picture of a cluster.
type clusterPage struct {
	cluster *topoview.Cluster
	columns int
	notes   []string
	w, h    float64
}

func newClusterPage(cluster *topoview.Cluster) *clusterPage {
	p := &clusterPage{cluster: cluster, columns: min(max(len(cluster.Nodes), 2), tileColumns)}
	inner := float64(p.columns)*(tileWidth+tileGap) - tileGap
	p.w = inner + 2*margin
	notes := slices.Clone(cluster.Notes)
	if slices.ContainsFunc(cluster.Nodes, func(n topoview.ClusterNode) bool { return len(n.Capacity.Stranded) > 0 }) {
		notes = append(notes, "dashed: free, and stranded without a partner")
	}
	for _, note := range notes {
		p.notes = append(p.notes, fontSmall.wrap(note, inner)...)
	}
	p.h = titleSpace + roomLine
	for row := range p.rows() {
		p.h += p.rowHeight(row) + tileGap
	}
	if lines := p.claimLines(); lines > 0 {
		p.h += 34 + float64(lines)*22
	}
	p.h += float64(len(p.notes))*17 + margin
	return p
}

func (p *clusterPage) headline() string {
	c := p.cluster
	return topoview.Joined(" · ", plural.Count(len(c.Nodes), "node", "nodes"),
		plural.Count(c.Capacity.GPUs.Total, "GPU", "GPUs"), plural.Count(c.Capacity.NICs.Total, "NIC", "NICs"),
		plural.Count(c.Capacity.CPUs.Total, "CPU", "CPUs"), plural.Count(len(c.Claims), "claim", "claims"))
}

func (p *clusterPage) rows() int { return (len(p.cluster.Nodes) + p.columns - 1) / p.columns }

func (p *clusterPage) inRow(row int) []topoview.ClusterNode {
	return p.cluster.Nodes[row*p.columns : min((row+1)*p.columns, len(p.cluster.Nodes))]
}

func (p *clusterPage) rowHeight(row int) float64 {
	h := 0.0
	for i := range p.inRow(row) {
		h = max(h, tileHeight(&p.inRow(row)[i]))
	}
	return h
}

func (p *clusterPage) draw(c *canvas) {
	c.rect(0, 0, p.w, p.h, 0, "pl-paper")
	inner := p.w - 2*margin
	c.text(margin, 66, fontTitle, left, "Cluster", inner-130)
	c.text(margin, 92, fontHead, left, p.headline(), inner)
	if room := p.cluster.Capacity.Text(p.cluster.HoldersKnown); room != "" {
		c.text(margin, 92+roomLine, fontHead, left, "room for "+room, inner)
	}
	drawMark(c, p.w-margin)
	y := float64(titleSpace + roomLine)
	for row := range p.rows() {
		for i, n := range p.inRow(row) {
			drawTile(c, &n, margin+float64(i)*(tileWidth+tileGap), y, p.rowHeight(row))
		}
		y += p.rowHeight(row) + tileGap
	}
	y = p.drawClaims(c, y)
	for i, note := range p.notes {
		c.text(margin, y+12+float64(i)*17, fontSmall, left, note, inner)
	}
}

// claims are the names to show, each once, in the order of their colours.
func (p *clusterPage) claims() []string {
	var names []string
	seen := map[string]bool{}
	for _, claim := range p.cluster.Claims {
		if name := claim.Namespace + "/" + claim.Name; !seen[name] && len(names) < shownClaims {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

func (p *clusterPage) claimColumns() int { return max(1, int((p.w-2*margin)/claimColumn)) }

func (p *clusterPage) claimLines() int {
	return (len(p.claims()) + p.claimColumns() - 1) / p.claimColumns()
}

func (p *clusterPage) drawClaims(c *canvas, y float64) float64 {
	names := p.claims()
	if len(names) == 0 {
		return y
	}
	c.line(margin, y+8, p.w-margin, y+8, "pl-rule")
	for i, name := range names {
		column, line := i%p.claimColumns(), i/p.claimColumns()
		x, at := margin+float64(column)*claimColumn, y+26+float64(line)*22
		c.rect(x, at, 14, 14, 3, c.claimClass(name))
		c.text(x+22, at+11.5, fontBody, left, name, claimColumn-34)
	}
	if more := len(c.colour) - len(names); more > 0 {
		c.text(p.w-margin, y+26, fontSmall, right, "and "+strconv.Itoa(more)+" more", 120)
	}
	return y + 34 + float64(p.claimLines())*22
}

// perRow is how many squares stand side by side.
const perRow = (tileWidth - 2*nodePad - rowLabel) / squareStep

// ofKind are a node's devices of a kind that are on offer.
func ofKind(n *topoview.ClusterNode, kind string) []topoview.Device {
	var list []topoview.Device
	for _, d := range n.Devices {
		if d.Kind == kind && d.Withheld == "" {
			list = append(list, d)
		}
	}
	return list
}

func squareRows(n int) float64 { return math.Ceil(float64(n) / perRow) }

func tileHeight(n *topoview.ClusterNode) float64 {
	h := float64(tileHead + nodePad)
	for _, kind := range []string{topoview.KindGPU, topoview.KindNIC} {
		h += squareRows(len(ofKind(n, kind))) * squareStep
	}
	if n.Capacity.CPUs.Total > 0 {
		h += gaugeHeight + 10
	}
	return h
}

func drawTile(c *canvas, n *topoview.ClusterNode, x, y, h float64) {
	c.open("g", attributes{"data-node", n.Name})
	c.rect(x, y, tileWidth, h, 12, "pl-node")
	c.text(x+nodePad, y+28, fontNode, left, n.Name, tileWidth-2*nodePad-90)
	c.text(x+tileWidth-nodePad, y+28, fontSmall, right, plural.Count(n.Claims, "claim", "claims"), 90)
	c.text(x+nodePad, y+46, fontBody, left, tilePairs(&n.Capacity), tileWidth-2*nodePad)
	at := y + tileHead
	at = drawSquares(c, ofKind(n, topoview.KindGPU), "GPU", x+nodePad, at)
	at = drawSquares(c, ofKind(n, topoview.KindNIC), "NIC", x+nodePad, at)
	drawGauge(c, n.Capacity.CPUs, x+nodePad, at+4)
	c.close("g")
}

// tilePairs is the free pairs in a few words.
func tilePairs(r *topoview.FreeCapacity) string {
	if r.PairedBy == "" {
		return "no GPU+NIC pairs"
	}
	text := plural.Count(r.Pairs.Free, "pair", "pairs") + " free of " + strconv.Itoa(r.Pairs.Total)
	largest := ""
	for _, g := range r.Groups {
		if g.Free > 0 {
			largest = "largest group " + strconv.Itoa(g.Size)
		}
	}
	stranded := ""
	if len(r.Stranded) > 0 {
		stranded = strconv.Itoa(len(r.Stranded)) + " stranded"
	}
	return topoview.Joined(" · ", text, largest, stranded)
}

func drawSquares(c *canvas, devices []topoview.Device, label string, x, y float64) float64 {
	if len(devices) == 0 {
		return y
	}
	c.text(x, y+13, fontCaption, left, label, rowLabel, accent(devices[0].Kind))
	for i, d := range devices {
		column, row := i%perRow, i/perRow
		class := "pl-card"
		switch {
		case len(d.Claims) > 0:
			class = c.claimClass(d.Claims[0])
		case d.Taint != "":
			class = "pl-reserved"
		case d.Stranded != "":
			class = "pl-stranded"
		}
		c.open("g", attributes{"data-device", d.Name})
		c.title(describe(d, c))
		c.rect(x+rowLabel+float64(column)*squareStep, y+float64(row)*squareStep, squareSize, squareSize, 3, class)
		c.close("g")
	}
	return y + squareRows(len(devices))*squareStep
}

// drawGauge shows how many CPUs are held.
func drawGauge(c *canvas, cpus topoview.Count, x, y float64) {
	if cpus.Total == 0 {
		return
	}
	w := float64(tileWidth - 2*nodePad - rowLabel)
	c.open("g", nil)
	c.title(strconv.Itoa(cpus.Free) + " of " + strconv.Itoa(cpus.Total) + " CPUs free")
	c.text(x, y+8, fontCaption, left, "CPUs", rowLabel)
	c.rect(x+rowLabel, y, w, gaugeHeight, 4, "pl-core")
	if held := cpus.Total - cpus.Free; held > 0 {
		c.rect(x+rowLabel, y, max(gaugeHeight, w*float64(held)/float64(cpus.Total)), gaugeHeight, 4, "pl-root")
	}
	c.close("g")
}
