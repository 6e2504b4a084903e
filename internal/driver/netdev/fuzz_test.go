// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"plumbline.dev/plumbline/api/v1alpha1/configtest"
	"plumbline.dev/plumbline/internal/driver"
)

// FuzzPlan plans whatever a class may say, which is more than a claim may: a refusal, or
// a record that can be read again and names an interface that can be.
func FuzzPlan(f *testing.F) {
	for _, text := range []string{
		`{}`, full, `null`, `[]`, `{"interface": {"vrf": {"name": "v"}}}`,
		`{"interface": {"mtu": 68, "addresses": ["fd00::1/64"]}}`, `{"ethtool": {"features": {"tso": false}}}`,
		`{"routes": [{"destination": "0.0.0.0/0", "gateway": "10.33.0.1"}]}`, `{"profile": "p"}`, `{"interface": {"dhcp": true}}`, gib,
	} {
		f.Add([]byte(text))
	}
	for seed := range uint64(20) {
		f.Add(marshal(f, configtest.Valid(rand.New(rand.NewPCG(seed, 1)))))
	}
	f.Fuzz(func(t *testing.T, parameters []byte) {
		c := claim("", "pci-0000-91-00-0", "pci-0000-93-00-0", "pci-0000-95-00-0")
		for i := range c.Devices {
			c.Devices[i].Configs = []driver.Config{{Source: driver.SourceClass, Raw: parameters}}
		}
		r, err := planIn(t, c)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "claim default/claim") {
				t.Errorf("a refusal that does not say of what: %v", err)
			}
			return
		}
		for _, d := range r.Devices {
			plan, err := ReadPlan(d)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Pod != nil && (plan.Pod.Name == "" || len(plan.Pod.Name) > 15) {
				t.Errorf("the interface is called %q", plan.Pod.Name)
			}
		}
		if _, _, err := hostParts([]driver.Record{r}); err != nil {
			t.Errorf("NICs of the same parameters do not agree: %v", err)
		}
	})
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A thousand invalid configurations are refused while planning, before anything
// is touched, each at its field.
func TestInvalidIsRefusedAtItsField(t *testing.T) {
	for seed := range uint64(1000) {
		doc, path := configtest.Invalid(rand.New(rand.NewPCG(seed, 2)))
		text := string(marshal(t, doc))
		_, err := planIn(t, givenBy(driver.SourceClass, text, "pci-0000-91-00-0"))
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("seed %d: %s\nerror %v\nwant one at %s", seed, text, err, path)
		}
	}
}

// What is valid is planned, unless it is about another kind of NIC than this
// one, which the refusal says.
func TestValidIsPlanned(t *testing.T) {
	known := regexp.MustCompile(`interface\.hardwareAddr: |IPv6 address|interface\.mtu: `)
	planned := 0
	for seed := range uint64(1000) {
		doc := configtest.Valid(rand.New(rand.NewPCG(seed, 3)))
		for _, name := range []string{"profile", "ethtool"} {
			delete(doc, name)
		}
		if i, ok := doc["interface"].(map[string]any); ok {
			for _, name := range []string{"type", "mode", "vlanID", "ipam", "gsoIPv4MaxSize", "groIPv4MaxSize", "vf"} {
				delete(i, name)
			}
		}
		text := string(marshal(t, doc))
		_, err := planIn(t, givenBy(driver.SourceClass, text, "pci-0000-91-00-0"))
		switch {
		case err == nil:
			planned++
		case !known.MatchString(err.Error()):
			t.Errorf("seed %d: %s\nerror %v", seed, text, err)
		}
	}
	if planned < 500 {
		t.Errorf("only %d of 1000 valid configurations were planned: this test proves little", planned)
	}
}
