// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/driver"
)

// two are journals of two agents on one directory.
func two(t *testing.T) (a, b *Journal) {
	t.Helper()
	dir := t.TempDir()
	var err error
	if a, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	if b, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func ofPod(name string) driver.Record {
	return driver.Record{
		Version: driver.RecordVersion, Driver: "dra.net", Claim: driver.ClaimRef{UID: "a-uid", Namespace: "default", Name: "a"},
		Pods: []driver.PodRef{{UID: "pod", Name: name}}, Devices: []driver.DeviceRecord{{Device: "nic0", Plan: json.RawMessage(`{"x":1}`)}},
	}
}

func podOf(t *testing.T, j *Journal) string {
	t.Helper()
	r, err := j.Get("dra.net", "a-uid")
	if err != nil {
		t.Fatal(err)
	}
	list, problems, err := j.List("dra.net")
	if err != nil || len(problems) > 0 || len(list) != 1 || list[0].Pods[0].Name != r.Pods[0].Name {
		t.Fatalf("listed %v, %v, %v; want what Get says: %v", list, problems, err, r)
	}
	return r.Pods[0].Name
}

// What another agent does to a record is seen at once, whatever was read before.
func TestKnownRecordsAreThoseOfTheFiles(t *testing.T) {
	a, b := two(t)
	for _, name := range []string{"one", "two", "six", "ten"} { // of one length
		if err := b.Put(ofPod(name)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := podOf(t, a); got != name {
				t.Errorf("got %q, want %q", got, name)
			}
		}
	}
	path := filepath.Join(a.dir, "dra.net", "a-uid.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var problem Problem
	if _, err := a.Get("dra.net", "a-uid"); !errors.As(err, &problem) {
		t.Errorf("of a file that was spoilt: %v", err)
	}
	if err := b.Put(ofPod("new")); err != nil {
		t.Fatal(err)
	}
	podOf(t, a)
	if err := b.Delete("dra.net", "a-uid"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Get("dra.net", "a-uid"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is gone: %v", err)
	}
}

// What a caller does to its record is its own.
func TestKnownRecordsAreNobodysToChange(t *testing.T) {
	a, _ := two(t)
	if err := a.Put(ofPod("one")); err != nil {
		t.Fatal(err)
	}
	r, err := a.Get("dra.net", "a-uid")
	if err != nil {
		t.Fatal(err)
	}
	r.Pods[0].Name, r.Devices[0].Device, r.Devices[0].Plan = "other", "other", nil
	again, err := a.Get("dra.net", "a-uid")
	if err != nil || again.Pods[0].Name != "one" || again.Devices[0].Device != "nic0" || again.Devices[0].Plan == nil {
		t.Errorf("got %+v, %v", again, err)
	}
}

// A record is decoded once: the second reader pays for a look at its file, however
// much it holds.
func TestKnownRecordsAreDecodedOnce(t *testing.T) {
	a, _ := two(t)
	r := ofPod("one")
	r.Devices[0].Plan = json.RawMessage(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	if err := a.Put(r); err != nil {
		t.Fatal(err)
	}
	podOf(t, a)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	podOf(t, a)
	runtime.ReadMemStats(&after)
	bytes := after.TotalAlloc - before.TotalAlloc
	if bytes > 1<<16 {
		t.Errorf("reading a known record of a megabyte takes %d bytes", bytes)
	}
}

// A record that is gone holds no file open.
func TestGoneRecordsAreForgotten(t *testing.T) {
	a, b := two(t)
	if err := a.Put(ofPod("one")); err != nil {
		t.Fatal(err)
	}
	podOf(t, a)
	if err := b.Delete("dra.net", "a-uid"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.List("dra.net"); err != nil {
		t.Fatal(err)
	}
	if n := len(a.cache.records); n > 0 {
		t.Errorf("%d records are remembered", n)
	}
}
