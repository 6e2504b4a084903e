// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev"
	"plumbline.dev/plumbline/internal/journal"
	"plumbline.dev/plumbline/internal/model"
)

// What pods hold is told NIC by NIC, so that another driver's is none of this one's; what
// cannot be read may be any.
func TestHeldNICs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := json.Marshal(netdev.Plan{NIC: model.NIC{Interface: &model.Interface{Name: "eth1"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]driver.DeviceRecord{
		"held":     {Device: "pci-0000-06-00-0", Plan: plan},
		"watched":  {Device: "pci-0000-06-00-0", Plan: plan, AdminAccess: true},
		"unlikely": {Device: "pci-0000-06-00-0", Plan: json.RawMessage(`"no plan"`)},
	} {
		record := driver.Record{Version: driver.RecordVersion, BootID: "boot", Driver: "dra.net", Devices: []driver.DeviceRecord{r}}
		record.Claim = driver.ClaimRef{Namespace: "default", Name: name, UID: types.UID(name)}
		if err := j.Put(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "dra.net", "broken.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	held, unread, err := heldNICs(dir, []string{"dra.net"})
	if err != nil || len(held) != 1 || held[0].NIC.Interface.Name != "eth1" || held[0].By != "dra.net for default/held" {
		t.Errorf("held: %+v, %v; want eth1 of the claim that holds it", held, err)
	}
	if all := strings.Join(unread, "\n"); len(unread) != 2 || !strings.Contains(all, "broken.json") || !strings.Contains(all, "unlikely") {
		t.Errorf("cannot be read: %q; want the broken file, and the plan that is none", unread)
	}
}
