// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/cli/clitest"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// unpacked reads an archive: the texts by name.
func unpacked(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for r := tar.NewReader(packed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(header.Name, "plumbline/") || !filepath.IsLocal(header.Name) {
			t.Errorf("an entry called %q", header.Name)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		texts[strings.TrimPrefix(header.Name, "plumbline/")] = string(text)
	}
}

// What only the administrator may know is in files that a bundle reads, and not in it.
func TestBundle(t *testing.T) {
	root := rootOf(t, "a3-ultragpu-8g")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"proc/version": "Linux version 6.8.0 (builder@elsewhere) from 10.20.30.40\n",
		"etc/hostname": "gpu-1.example.com\n",
		"proc/modules": "mlx5_core 3000000 1 mlx5_ib, Live 0xffffffffc0a00000 (OE)\n",
		"sys/module/mlx5_core/parameters/prof_sel": "2\n",
		"sys/module/nvidia/parameters/NVreg_Host":  "10.20.30.40 GPU-1\x1b[2J\n",
		"sys/module/dm_crypt/parameters/key":       "secret\n",
		"proc/cmdline":                             "root=UUID=secret password=secret\n",
		"proc/1/environ":                           "TOKEN=secret",
		"proc/driver/nvidia/version":               "NVRM version: 570.86.15\n",
		"etc/os-release":                           "NAME=Debian\nVERSION_ID=12\nHOME_URL=https://[2001:db8::7]/ 0c:42:a1:03:00:16 0C42:A103:0016:ABCD 0000:06:00.0\nGPU-1 " + host + " 10.20.30.40\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	bundle := func(file string, flags ...string) map[string]string {
		t.Helper()
		text, err := clitest.Run(t, NewCommand(""), "", append([]string{"--root", root, "--bundle", filepath.Join(dir, file)}, flags...)...)
		if err != nil || !strings.Contains(text, "MANIFEST.txt says what of") {
			t.Fatalf("%q, %v", text, err)
		}
		return unpacked(t, filepath.Join(dir, file))
	}
	texts := bundle("a.tar.gz")
	var names []string
	for name, text := range texts {
		names = append(names, name)
		for _, secret := range []string{"secret", host, "elsewhere", "GPU-1", "10.20.30.40", "2001:db8::7", "0c:42:a1", "\x1b", "0C42:A103", "0xffffffff"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q", name, secret)
			}
		}
		if name != "MANIFEST.txt" && !strings.Contains(texts["MANIFEST.txt"], "\n"+name+" ") && !strings.HasPrefix(texts["MANIFEST.txt"], name+" ") {
			t.Errorf("MANIFEST.txt lacks %s", name)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "MANIFEST.txt doctor.json doctor.txt kernel.txt machine.txt modules.txt nvidia.txt os-release.txt parameters.txt profile.yaml version.txt" {
		t.Errorf("the bundle has %s", got)
	}
	if want := "https://[ip-2]/ mac-1 guid-1 0000:06:00.0"; !strings.Contains(texts["os-release.txt"], want) {
		t.Errorf("stand-ins: %s, want %s", texts["os-release.txt"], want)
	}
	if want := "mlx5_core 3000000 1 mlx5_ib, Live\n"; texts["modules.txt"] != want {
		t.Errorf("modules: %q, want %q", texts["modules.txt"], want)
	}
	if want := "mlx5_core prof_sel=2\nnvidia NVreg_Host=ip-1 host-"; !strings.HasPrefix(texts["parameters.txt"], want) {
		t.Errorf("parameters: %q, want %q", texts["parameters.txt"], want)
	}
	if !strings.Contains(texts["doctor.txt"], "/run/nri/nri.sock") || !strings.Contains(texts["doctor.json"], `"check": "runtime"`) || texts["nvidia.txt"] != "NVRM version: 570.86.15\n" {
		t.Errorf("what doctor says: %s", texts["doctor.txt"])
	}
	bundle("b.tar.gz")
	first, _ := os.ReadFile(filepath.Join(dir, "a.tar.gz"))
	second, _ := os.ReadFile(filepath.Join(dir, "b.tar.gz"))
	if !bytes.Equal(first, second) {
		t.Error("two bundles of one host differ")
	}
	if whole := bundle("c.tar.gz", "--with-addresses"); !strings.Contains(whole["os-release.txt"], "GPU-1 "+host+" 10.20.30.40") {
		t.Errorf("--with-addresses: %s", whole["os-release.txt"])
	}
	if _, err := clitest.Run(t, NewCommand(""), "", "--root", root, "--bundle", filepath.Join(dir, "a.tar.gz")); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("over another file: %v", err)
	}
}

// TestBundleOfNodes: what nodes said of themselves is in it, of the chosen ones alone, and
// under other names.
func TestBundleOfNodes(t *testing.T) {
	dir := t.TempDir()
	bundle := func(a *api, file string, flags ...string) map[string]string {
		t.Helper()
		if _, _, err := a.run(t, append([]string{"--bundle", filepath.Join(dir, file)}, flags...)...); err != nil {
			t.Fatal(err)
		}
		return unpacked(t, filepath.Join(dir, file))
	}
	a := pool(t)
	a.reports[3].Report.Findings[0].Found = "no answer from 10.20.30.40"
	a.reports[3].ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "someone"}}
	a.installation = &hosts.Installation{Status: hosts.InstallationStatus{Version: "v9", NotServing: []hosts.NodeNotServing{{Node: "gpu-77", Why: "no agent on gpu-77"}}}}
	texts := bundle(a, "all.tar.gz", "-A")
	for name, text := range texts {
		for _, secret := range []string{"gpu-3", "gpu-77", "10.20.30.40", "someone"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q:\n%s", name, secret, text)
			}
		}
		if name != "MANIFEST.txt" && !strings.Contains(texts["MANIFEST.txt"], name+" ") {
			t.Errorf("MANIFEST.txt lacks %s", name)
		}
	}
	var list hosts.HostReportList
	if err := yaml.UnmarshalStrict([]byte(texts["hostreports.yaml"]), &list); err != nil || len(list.Items) != len(a.reports) {
		t.Fatalf("%d reports, %v, want %d", len(list.Items), err, len(a.reports))
	}
	if !strings.Contains(texts["hostreports.yaml"], "no answer from ip-") {
		t.Errorf("no stand-in: %s", texts["hostreports.yaml"])
	}
	var installation hosts.Installation
	if err := yaml.UnmarshalStrict([]byte(texts["installation.yaml"]), &installation); err != nil || installation.Status.Version != "v9" ||
		!strings.HasPrefix(installation.Status.NotServing[0].Node, "host-") {
		t.Errorf("%+v, %v", installation, err)
	}

	a.installation = nil
	texts = bundle(a, "cpu.tar.gz", "-l", "pool=cpu", "--with-addresses")
	if text := texts["hostreports.yaml"]; strings.Count(text, "- metadata:") != 2 || !strings.Contains(text, "name: cpu-1") || strings.Contains(text, "gpu-") {
		t.Errorf("reports of two nodes: %s", text)
	}
	if !strings.HasPrefix(texts["installation.yaml"], "cannot be read: ") {
		t.Errorf("an installation that there is not: %s", texts["installation.yaml"])
	}
	texts = bundle(a, "one.tar.gz", "--node", "gpu-3", "--with-addresses")
	if text := texts["hostreports.yaml"]; strings.Count(text, "- metadata:") != 1 || !strings.Contains(text, "no answer from 10.20.30.40") {
		t.Errorf("the report of one node: %s", text)
	}
}

func TestBundleUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"want a file": {"--bundle", ""}, "does not go with --learn and -o": {"--bundle", "x", "-o", "json"}, "want --bundle with it": {"--with-addresses"},
	} {
		var usage cmdutil.UsageError
		if _, err := clitest.Run(t, NewCommand(""), "", args...); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}

func TestStandIns(t *testing.T) {
	s := newStandIns([]string{"node-1", "node-10", "localhost", "", "gpu-1.example.com"})
	for _, c := range [][2]string{
		{"node-10 and node-1, node-1", "host-1 and host-2, host-2"},
		{"10.0.0.1 10.0.0.2 10.0.0.1", "ip-1 ip-2 ip-1"},
		{"127.0.0.1 ::1 0.0.0.0", "127.0.0.1 ::1 0.0.0.0"},
		{"1.2.3 570.86.15 6.8.0-1007 12:34:56", "1.2.3 570.86.15 6.8.0-1007 12:34:56"},
		{"0000:06:00.0 0000:91:00.1", "0000:06:00.0 0000:91:00.1"},
		{"fe80:0000:0000:0000:0c42:a103:0016:abcd", "ip-3"},
		{"00:00:10:87:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:16:ab:cd", "mac-1"},
		{"0c42:a103:0016:abcd 0C42:A103:0016:ABCD 0x0c42a10300160abc", "guid-1 guid-1 guid-2"},
		{"2001:db8::7. 2001:DB8::7: unreachable, [2001:db8::]", "ip-4. ip-4: unreachable, [ip-5]"},
		{"source:a:10.0.0.1 10.0.0.1_x 10.0.0.1/24 ::ffff:10.0.0.2", "source:a:ip-1 ip-1_x ip-1/24 ip-6:ip-2"},
		{"GPU-1.example.com gpu-1 0c42a1030016", "host-3 host-4 mac-2"},
		{"GPU-7b1f4c0e-33a1-4f4e-9c57-0123456789ab", "GPU-uuid-1"},
	} {
		if got := string(s.in([]byte(c[0]))); got != c[1] {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
}
