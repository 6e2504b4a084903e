// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package egx

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The article prints iproute2's text, the pods here have busybox's.
func TestShownLink(t *testing.T) {
	const rest = "    link/ether 62:51:fb:13:88:ce brd ff:ff:ff:ff:ff:ff link-netnsid 0\n" +
		"    inet 192.168.111.1/24 brd 192.168.111.255 scope global net1\n       valid_lft forever preferred_lft forever\n" +
		"    inet6 fe80::1/64 scope link \n"
	good := "5: net1@if24: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc noqueue state UP group default\n" + rest
	for name, tc := range map[string]struct {
		out     string
		printed bool
		fails   bool
	}{
		"the article's":      {out: good, printed: true},
		"busybox's":          {out: "3: net1@if5: <BROADCAST,MULTICAST,UP,LOWER_UP,M-DOWN> mtu 9000 qdisc noqueue qlen 1000\n" + rest, printed: true},
		"down":               {out: strings.Replace(good, ",UP,LOWER_UP", "", 1)},
		"no carrier":         {out: strings.Replace(good, "MULTICAST,UP,LOWER_UP", "NO-CARRIER,MULTICAST,UP", 1)},
		"another MTU":        {out: strings.Replace(good, "9000", "1500", 1)},
		"another name":       {out: strings.Replace(good, "net1@if24", "net2@if24", 1)},
		"no address":         {out: strings.Replace(good, "    inet ", "    was ", 1)},
		"another prefix":     {out: strings.Replace(good, "111.1/24", "111.1/32", 1)},
		"the subnet's own":   {out: strings.Replace(good, "111.1/24", "111.0/24", 1)},
		"two addresses":      {out: good + "    inet 192.168.111.2/24 scope global secondary net1\n", fails: true},
		"half of an address": {out: strings.Replace(good, "192.168.111.1/24", "192.168.111.1", 1), fails: true},
		"no such interface":  {out: "ip: can't find device 'net1'\n", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := parseLink(tc.out)
			if (err != nil) != tc.fails || err == nil && l.asPrinted() != tc.printed {
				t.Errorf("%+v, printed %v, %v; want %v", l, l.asPrinted(), err, tc.printed)
			}
			if tc.printed && l.address != netip.MustParsePrefix("192.168.111.1/24") {
				t.Errorf("%s", l.address)
			}
		})
	}
}

func TestLastRow(t *testing.T) {
	const head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
	const row = " 8388608    5000             98.02              97.64                 0.001455\n"
	if got := lastRow(head + " 2          5000           0.083670            0.082376            5.148474\n" + row); got !=
		"8388608 5000 98.02 97.64 0.001455 (#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps])" {
		t.Error(got)
	}
	if got := lastRow(row); got != "" {
		t.Errorf("without a table: %q", got)
	}
}

// The scenario and docs/shared-nics.md have the example's objects.
func TestObjects(t *testing.T) {
	const folder = "../../../examples/network-operator-egx/manifests"
	page, err := os.ReadFile("../../../docs/shared-nics.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	objects := example{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		// The second pods are as the first ones.
		_, object, _ := strings.Cut(string(text), "apiVersion:")
		if !strings.HasSuffix(file, "pod2.yaml") && !strings.Contains(string(page), strings.TrimSpace("apiVersion:"+object)) {
			t.Errorf("docs/shared-nics.md lacks %s:\napiVersion:%s", filepath.Base(file), object)
		}
		parsed, err := parseExample(string(text))
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(objects, parsed)
	}
	want := []string{
		"DeviceClass " + className, "HostPolicy " + policyName, "NetworkAddressPool " + poolName,
		"Pod " + firstGPUPod, "Pod " + otherGPUPod, "Pod " + firstPod, "Pod " + secondPod, "ResourceClaimTemplate " + gpuTemplate,
	}
	if got := slices.Sorted(maps.Keys(objects)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := objects.of(want...); err != nil {
		t.Error(err)
	}
	if text, err := objects.of("Pod " + firstPod); err != nil || !strings.Contains(text, firstPod) || strings.Contains(text, secondPod) {
		t.Errorf("%v:\n%s", err, text)
	}
	if _, err := objects.of("Pod nobody"); err == nil {
		t.Error("no error of a pod that the example lacks")
	}
}
