// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/docs/docstest"
	"plumbline.dev/plumbline/internal/cdi"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// The device that docs/one-device.md follows, and the page.
const (
	oneAddress = "0000:91:00.0"
	oneDevice  = "pci-0000-91-00-0"
	onePage    = "one-device.md"
)

// TestOneDevice replays every stop of one NIC's way, from the machine file to
// the container, each taking what the one before it gave.
func TestOneDevice(t *testing.T) {
	shipped, err := machine.OpenFacts("a3-ultragpu-8g")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := machine.Render(shipped)
	if err != nil {
		t.Fatal(err)
	}
	m, problems, err := inventory.Scan(t.Context(), inventory.Sources{Sys: tree}, inventory.Options{Name: shipped.Name})
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	nic := slicecodec.FindNIC(m, oneDevice)
	if nic == nil {
		t.Fatalf("no NIC is called %s", oneDevice)
	}
	c := driver.Claim{
		ClaimRef: driver.ClaimRef{UID: "2b7e1516-28ae-d2a6-abf7-158809cf4f3c", Namespace: "default", Name: "aligned-resource-claim"},
		Pods:     []driver.PodRef{{UID: "6bc1bee2-2e40-9f96-e93d-7e117393172a", Name: "aligned-gpu-nic-cpu-pod"}},
		Devices:  []driver.Allocation{{Request: "nic-req", Pool: shipped.Name, Device: oneDevice}},
	}
	known := facts{nics: map[string]nicFacts{oneDevice: seenOf(*nic)}}
	record, err := (&boundPlanner{bootID: "9f96e93d-7e11-7393-172a-ae2d8a571e03", facts: known}).Plan(c, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	stops := []docstest.Stop{
		{Name: "sysfs", Text: sysfsOf(t, tree, *nic.PCI)},
		{Name: "model", Text: indented(t, struct {
			NIC      *model.NIC
			Function *model.PCIFunction
		}{nic, m.Function(*nic.PCI)})},
		{Name: "slice", Text: published(t, m)},
		{Name: "claim", Text: asYAML(t, c.Devices)},
		{Name: "journal", Text: journaled(t, record)},
		{Name: "cdi", Text: spec(t, record)},
		{Name: "undo", Text: undone(t, record)},
	}
	docstest.Follow(t, onePage, stops)
}

// sysfsOf shows what the scanner reads of a function.
func sysfsOf(t *testing.T, tree *machine.Tree, a model.PCIAddress) string {
	t.Helper()
	link := "bus/pci/devices/" + a.String()
	target, err := tree.ReadLink(link)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%s -> %s\n", link, target)
	dir := path.Join(path.Dir(link), target)
	for _, name := range []string{"class", "vendor", "device", "numa_node", "current_link_speed", "current_link_width"} {
		content, err := fs.ReadFile(tree, path.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%-20s %s", name, content)
	}
	for _, class := range []string{"net", "infiniband"} {
		entries, err := fs.ReadDir(tree, path.Join(dir, class))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			text += fmt.Sprintf("%-20s %s\n", class+"/", e.Name())
		}
	}
	return text
}

func published(t *testing.T, m *model.Machine) string {
	t.Helper()
	for _, d := range slicecodec.Encode(m, slicecodec.DriverNet, slicecodec.CPUOptions{}) {
		if d.Name == oneDevice {
			return asYAML(t, d)
		}
	}
	t.Fatalf("%s is not published", oneDevice)
	return ""
}

// journaled writes the record, and shows the file's own text.
func journaled(t *testing.T, r driver.Record) string {
	t.Helper()
	dir := t.TempDir()
	j, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Put(r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, r.Driver, string(r.Claim.UID)+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(pretty.String()) + "\n"
}

func spec(t *testing.T, r driver.Record) string {
	t.Helper()
	s, err := cdi.Spec(r)
	if err != nil {
		t.Fatal(err)
	}
	return asYAML(t, s)
}

// undone is what comes back to the host: read from the journal's record alone.
func undone(t *testing.T, r driver.Record) string {
	t.Helper()
	p, err := ReadPlan(r.Devices[0])
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%s: name %s, MTU %d, up %t\n", p.identity(), p.Host.Name, *p.Host.Settings.MTU, p.Host.Up)
	for _, a := range p.Host.Addresses {
		text += "address " + a.Text + "\n"
	}
	for _, route := range p.Host.Routes {
		text += "route " + route.Text + "\n"
	}
	return text
}

func indented(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

func asYAML(t *testing.T, v any) string {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
