// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"context"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plumbline.dev/plumbline/internal/machine/systree"
)

// again records a tree and reads the recording's text.
func again(t *testing.T, sys fs.FS, o Options) (*Recording, string) {
	t.Helper()
	tree, _, err := Record(context.Background(), sys, o)
	if err != nil {
		t.Fatal(err)
	}
	text := (&Recording{Tree: tree}).Encode()
	r, err := Parse(text, "r")
	if err != nil {
		t.Fatal(err)
	}
	return r, string(text)
}

func TestRecordHidesAddressNames(t *testing.T) {
	const usb = "devices/pci0000:00/0000:00:14.0/usb1/1-1/net/enx001122334455"
	tree := systree.New()
	for _, err := range []error{
		tree.AddLink("class/net/enx001122334455", usb),
		tree.AddFile(usb+"/mtu", "1500\n"),
		tree.AddFile(usb+"/address", "00:11:22:33:44:55\n"),
		tree.AddFile(usb+"/ifalias", "uplink of host7\n"),
		tree.AddLink("class/net/veth0", "devices/virtual/net/veth0"),
		tree.AddFile("devices/virtual/net/veth0/mtu", "1500\n"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r, text := again(t, tree, Options{})
	for _, secret := range []string{"001122334455", "00:11", "host7", "veth0"} {
		if strings.Contains(text, secret) {
			t.Errorf("the recording holds %s:\n%s", secret, text)
		}
	}
	if got, err := fs.ReadFile(r.Tree, "class/net/enx000000000001/mtu"); err != nil || string(got) != "1500\n" {
		t.Errorf("the renamed interface reads %q, %v", got, err)
	}
	_, text = again(t, tree, Options{Private: true})
	if !strings.Contains(text, "00:11:22:33:44:55") {
		t.Errorf("asked for, the address is missing:\n%s", text)
	}
}

func TestRecordNamesWhatItLeavesOut(t *testing.T) {
	tree := systree.New()
	for _, err := range []error{
		tree.AddDir("devices/system/cpu"),
		tree.AddLink("bus/pci/devices/0000:00:01.0", "bus/pci/elsewhere"),
		tree.AddLink("class/net/loop", "class/net/pool"),
		tree.AddLink("class/net/pool", "class/net/loop"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, problems, err := Record(context.Background(), tree, Options{})
	if err != nil || len(problems) != 3 {
		t.Errorf("want three problems, got %v, %v", problems, err)
	}
	if _, _, err := Record(context.Background(), systree.New(), Options{}); err == nil {
		t.Error("an empty directory was recorded")
	}
}

func TestRecordingRefusals(t *testing.T) {
	const head = header + "\n"
	for text, want := range map[string]string{
		"":                                      `r:1: is empty`,
		"plumbline recording 2\n":               `r:1: "plumbline recording 2": want`,
		head + "file a":                         `r:2: does not end with a line end`,
		head + "\tx\n":                          `r:2: content belongs below`,
		head + "file a\n\tx\nfile a\n":          `exists already`,
		head + "file ../a\n":                    `does not lie in the tree`,
		head + "link a ../../x\n":               `does not lie in the tree`,
		head + "link a\n":                       `link has 1 words after it, want 2`,
		head + "hex a\n\tXY\n":                  `want up to 16 bytes`,
		head + "hex a\n\t410a\n":                `want file, not hex`,
		head + "fifo a\n":                       `is no keyword`,
		head + "file  a\n":                      `want a keyword and its words`,
		head + "name m\nname n\n":               `stand once`,
		head + "file a\nname n\n":               `stand once`,
		head + "file a/b\nfile a\n\tx\n":        `exists already`,
		head + "file a\n\tx\x01\n":              `control characters`,
		head + `file "a\x01b"` + "\n\tx\n":      `characters no sysfs name has`,
		head + "dir a\nlink a/b ../../../etc\n": `does not lie in the tree`,
	} {
		if _, err := Parse([]byte(text), "r"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func FuzzRecording(f *testing.F) {
	f.Add([]byte(header + "\narch x86_64\ndir a\nfile \"b c\"\n\t1\nhex d\n\t00ff\nlink e b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data, "r")
		if err != nil {
			return
		}
		again, err := Parse(r.Encode(), "r")
		if err != nil {
			t.Fatalf("what Encode writes is refused: %v", err)
		}
		if diff := cmp.Diff(r.Tree.Entries(), again.Tree.Entries()); diff != "" {
			t.Fatal(diff)
		}
	})
}
