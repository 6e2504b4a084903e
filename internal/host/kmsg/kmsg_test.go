// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kmsg

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecords(t *testing.T) {
	const log = "6,1,0,-;Linux version 6.12\n" +
		"4,2,1500000,c,caller=T1;mlx5_core 0000:06:00.0: a; b\n SUBSYSTEM=pci\n DEVICE=+pci:0000:06:00.0\n" +
		"12,3,2000000,-;a program's\\x0aword\n"
	want := []Record{
		{0, 0, "Linux version 6.12"},
		{0, 1500 * time.Millisecond, "mlx5_core 0000:06:00.0: a; b"},
		{1, 2 * time.Second, `a program's\x0aword`},
	}
	var got []Record
	for r, err := range Records(strings.NewReader(log)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRecordsRefuses(t *testing.T) {
	for log, want := range map[string]string{
		"6,1,0,-;fine\nhello\n":     `line 2 of the kernel's log: "hello": want PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT`,
		"6,1;x\n":                   "want PRIORITY",
		"-1,1,0,-;x\n":              `priority "-1": want a number`,
		"6,1,soon,-;x\n":            `time "soon": want a number of microseconds`,
		"6,1,9223372036854775,-;x":  `time "9223372036854775": want`,
		strings.Repeat("6", 20<<10): "token too long",
	} {
		var err error
		for _, e := range Records(strings.NewReader(log)) {
			err = e
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", log, err, want)
		}
	}
}

// TestDevice reads the log of this host, as far as it may, and comes to an end.
func TestDevice(t *testing.T) {
	d, err := Open("/dev/kmsg")
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the kernel's log is not for this process: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	for _, err := range Records(d) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "kmsg")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want that there is none", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("6,1,0,-;in a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	n := 0
	for r, err := range Records(d) {
		if n++; err != nil || r.Text != "in a file" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}

// Programs write into the log, too, and nobody promises that the kernel's format stays.
func FuzzRecords(f *testing.F) {
	f.Add("6,1,0,-;Linux version 6.12\n SUBSYSTEM=pci\n")
	f.Add("4,2,1500000,c,caller=T1;\x1b[31mred\n")
	f.Add(";\n,,;\n")
	f.Fuzz(func(t *testing.T, log string) {
		for r, err := range Records(strings.NewReader(log)) {
			if err == nil && (r.At < 0 || r.Facility < 0 || strings.Contains(r.Text, "\n")) {
				t.Errorf("%q: %+v", log, r)
			}
		}
	})
}
