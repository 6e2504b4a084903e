// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/journal"
)

func record(uid string) driver.Record {
	return driver.Record{
		Version: driver.RecordVersion,
		BootID:  "boot",
		Driver:  "dra.net",
		Claim:   driver.ClaimRef{UID: types.UID(uid), Namespace: "default", Name: "claim-" + uid},
		Pods:    []driver.PodRef{{UID: "pod", Name: "trainer"}},
		Devices: []driver.DeviceRecord{{Request: "nic", Pool: "node", Device: "pci-0000-8f-00-0", Plan: json.RawMessage(`{"a":1}`)}},
	}
}

func open(t *testing.T) (*journal.Journal, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return j, dir
}

func put(t *testing.T, j *journal.Journal, records ...driver.Record) {
	t.Helper()
	for _, r := range records {
		if err := j.Put(r); err != nil {
			t.Fatal(err)
		}
	}
}

// compact undoes the indentation that Put gives a plan.
func compact(t *testing.T, r driver.Record) driver.Record {
	t.Helper()
	var out driver.Record
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPutGetListDelete(t *testing.T) {
	j, dir := open(t)
	put(t, j, record("b"), record("a"))
	changed := record("a")
	changed.BootID = "later"
	put(t, j, changed)

	again, err := journal.Open(dir) // as after a restart
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.Get("dra.net", "a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changed, compact(t, got)); diff != "" {
		t.Errorf("Get (-want +got):\n%s", diff)
	}
	records, problems, err := again.List("dra.net")
	if err != nil || len(problems) != 0 || len(records) != 2 || records[0].Claim.UID != "a" || records[1].Claim.UID != "b" {
		t.Errorf("List = %v, %v, %v; want records a and b", records, problems, err)
	}
	for range 2 { // the second finds nothing, which is no error
		if err := again.Delete("dra.net", "a"); err != nil {
			t.Error(err)
		}
	}
	if _, err := again.Get("dra.net", "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of a deleted record: %v, want fs.ErrNotExist", err)
	}
	if records, _, err := again.List("dra.cpu"); len(records) != 0 || err != nil {
		t.Errorf("List of a driver without records = %v, %v", records, err)
	}
}

func TestHostileNames(t *testing.T) {
	j, dir := open(t)
	for _, uid := range []string{"", "..", "../../etc/passwd", "a/b", "a\x00", "A", "-a", ".a", strings.Repeat("a", 64), "ü"} {
		if err := j.Put(record(uid)); err == nil {
			t.Errorf("Put with UID %q succeeded", uid)
		}
		if err := j.Delete("dra.net", types.UID(uid)); err == nil {
			t.Errorf("Delete with UID %q succeeded", uid)
		}
		if _, err := j.LockClaim(t.Context(), "dra.net", types.UID(uid)); err == nil {
			t.Errorf("LockClaim with UID %q succeeded", uid)
		}
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", "x.lock", "UP"} {
		r := record("a")
		r.Driver = name
		if err := j.Put(r); err == nil {
			t.Errorf("Put for driver %q succeeded", name)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("the journal holds %v, %v; want nothing", entries, err)
	}
}

func TestVersions(t *testing.T) {
	j, dir := open(t)
	r := record("a")
	r.Version = driver.NewestRecordVersion + 1
	if err := j.Put(r); err == nil {
		t.Error("Put of a newer version succeeded")
	}
	put(t, j, record("a"))
	newer := `{"version": 99, "devices": "of another type by then"}`
	if err := os.WriteFile(filepath.Join(dir, "dra.net", "b.json"), []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := j.Get("dra.net", "b")
	want := "record version 99 is newer than version 2, the newest this build knows: run the build that wrote it, or a newer one"
	if err == nil || !strings.HasSuffix(err.Error(), "b.json: "+want) {
		t.Errorf("Get of a newer record: %v, want ...%s", err, want)
	}
}

func TestBadFilesHideNothing(t *testing.T) {
	j, dir := open(t)
	put(t, j, record("good"))
	bad := map[string]string{
		"empty.json":  "",
		"cut.json":    `{"version": 1, "dri`,
		"list.json":   `[]`,
		"zero.json":   `{"driver": "dra.net"}`,
		"moved.json":  `{"version": 1, "driver": "dra.net", "claim": {"uid": "other"}}`,
		"foreign.txt": "hello",
		"UPPER.json":  "{}",
		"no\xff.json": "{}",
	}
	for name, text := range bad {
		if err := os.WriteFile(filepath.Join(dir, "dra.net", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, make := range map[string]func(string) error{
		"fifo.json": func(p string) error { return unix.Mkfifo(p, 0o600) },
		"link.json": func(p string) error { return os.Symlink("good.json", p) },
		"dir.json":  func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		bad[name] = ""
		if err := make(filepath.Join(dir, "dra.net", name)); err != nil {
			t.Fatal(err)
		}
	}
	j, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	records, problems, err := j.List("dra.net")
	if err != nil || len(records) != 1 || records[0].Claim.UID != "good" {
		t.Errorf("List = %v, %v; want the good record", records, err)
	}
	for _, p := range problems {
		delete(bad, filepath.Base(p.Path))
		if _, err := os.Lstat(p.Path); err != nil {
			t.Errorf("a bad file was not kept: %v", err)
		}
	}
	if len(bad) != 0 {
		t.Errorf("not reported as problems: %v", bad)
	}
}

func FuzzDecode(f *testing.F) {
	good, err := json.Marshal(record("a"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"version":1e400}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := journal.Decode(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("a decoded record does not encode: %v", err)
		}
		twice, err := journal.Decode(again)
		if err != nil {
			t.Fatalf("an encoded record does not decode: %v", err)
		}
		if diff := cmp.Diff(compact(t, r), compact(t, twice)); diff != "" {
			t.Fatalf("round trip (-want +got):\n%s", diff)
		}
	})
}
