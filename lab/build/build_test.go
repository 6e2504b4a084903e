// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plumbline.dev/plumbline/lab/cache"
)

// moduleFiles are those of a program's releases.
func moduleFiles(program string, all Releases) map[string]Release {
	files := map[string]Release{}
	for _, one := range all {
		files[filepath.Join(program, cmp.Or(all.moduleFile(one), "go.mod"))] = one
	}
	return files
}

// What progress lines and version flags say is what the modules pin.
func TestVersionsAreThosePinned(t *testing.T) {
	pins := map[string]string{
		"runc/go.mod":               "github.com/opencontainers/runc " + RuncVersion,
		"cni/go.mod":                "github.com/containernetworking/plugins " + CNIVersion,
		"dranet/go.mod":             "sigs.k8s.io/dranet " + DRANETVersion,
		"nvidia/go.mod":             nvidiaModule + " " + NVIDIAVersion,
		"nvidiadeviceplugin/go.mod": nvidiaDevicePluginModule + " " + NVIDIADevicePluginVersion,
		"mpioperator/go.mod":        mpiOperatorModule + " " + MPIOperatorVersion,
		"coredns/go.mod":            "github.com/coredns/coredns " + CoreDNSVersion,
	}
	for file, release := range moduleFiles("hyperkube", Kubernetes) {
		pins[file] = "k8s.io/kubernetes " + string(release)
	}
	for file, release := range moduleFiles("containerd", Containerd) {
		pins[file] = "github.com/containerd/containerd/v2 " + string(release)
	}
	for file, want := range pins {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want+" ") && !strings.Contains(string(text), want+"\n") {
			t.Errorf("%s does not pin %s", file, want)
		}
	}
}

// Who reads what plumbline was tried on reads the releases that are built.
func TestPageNamesReleases(t *testing.T) {
	text, err := os.ReadFile("../../docs/support.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range slices.Concat(Kubernetes, Containerd, Releases{RuncVersion}) {
		if version := strings.TrimPrefix(string(release), "v"); !strings.Contains(string(text), " "+version) {
			t.Errorf("docs/support.md does not name %s", version)
		}
	}
}

// Kubernetes' staging modules must all be of its own release.
func TestReplacesAreOfOneRelease(t *testing.T) {
	for file, release := range moduleFiles("hyperkube", Kubernetes) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		staging, replaces := " v0"+strings.TrimPrefix(string(release), "v1"), 0
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "=>") {
				continue
			}
			replaces++
			if !strings.HasSuffix(strings.TrimSpace(line), staging) {
				t.Errorf("%s: want%s: %s", file, staging, line)
			}
		}
		if replaces == 0 {
			t.Errorf("%s replaces nothing", file)
		}
	}
}

// The lab has few releases, and says so of any other.
func TestVersions(t *testing.T) {
	tests := []struct {
		chosen                 Versions
		kubernetes, containerd Release
		text                   string
		complaint              []string
	}{
		{Versions{}, "v1.37.1", "v2.4.2", "Kubernetes 1.37 and containerd 2.4", nil},
		{Versions{Kubernetes: "1.37", Containerd: "2.4"}, "v1.37.1", "v2.4.2", "Kubernetes 1.37 and containerd 2.4", nil},
		{Versions{Kubernetes: "1.36"}, "v1.36.4", "v2.4.2", "Kubernetes 1.36 and containerd 2.4", nil},
		{Versions{Containerd: "2.2"}, "v1.37.1", "v2.2.5", "Kubernetes 1.37 and containerd 2.2", nil},
		{Versions{Kubernetes: "1.35"}, "", "v2.4.2", "Kubernetes 1.35 and containerd 2.4", []string{`Kubernetes "1.35": want 1.37, 1.36 or 1.34`}},
		{Versions{Kubernetes: "1.36.4"}, "", "v2.4.2", "Kubernetes 1.36.4 and containerd 2.4", []string{`Kubernetes "1.36.4": want 1.37, 1.36 or 1.34`}},
		{Versions{Kubernetes: "../1.36", Containerd: "2"}, "", "", "Kubernetes ../1.36 and containerd 2",
			[]string{`Kubernetes "../1.36": want 1.37, 1.36 or 1.34`, `containerd "2": want 2.4 or 2.2`}},
	}
	for _, tt := range tests {
		kubernetes, _ := tt.chosen.kubernetes()
		containerd, _ := tt.chosen.containerd()
		if kubernetes != tt.kubernetes || containerd != tt.containerd || tt.chosen.String() != tt.text {
			t.Errorf("%+v: %q, %q, %s", tt.chosen, kubernetes, containerd, tt.chosen)
		}
		err := tt.chosen.Check()
		if (err == nil) != (tt.complaint == nil) {
			t.Errorf("%+v: %v", tt.chosen, err)
		}
		for _, want := range tt.complaint {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %s", tt.chosen, err, want)
			}
		}
	}
}

// Two releases of a program lie in the cache side by side, and neither is built anew
// because the other's requirements have changed.
func TestReleasesAreBuiltSideBySide(t *testing.T) {
	b := &Builder{goVersion: "go1 linux amd64"}
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString("more"); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"main.go", "go.mod", "go.sum", "1.36.mod", "1.36.sum"} {
		write(name)
	}
	steps := func() (newest, older cache.Step) {
		t.Helper()
		newest, err := b.step("hyperkube", "", goBuild{dir: dir, modfile: Kubernetes.moduleFile("v1.37.1")})
		if err != nil {
			t.Fatal(err)
		}
		if older, err = b.step("hyperkube", "", goBuild{dir: dir, modfile: Kubernetes.moduleFile("v1.36.4")}); err != nil {
			t.Fatal(err)
		}
		return newest, older
	}
	newest, older := steps()
	if newest.Name != "hyperkube" || older.Name != "hyperkube-1.36" || newest.Key == older.Key {
		t.Errorf("%s %s and %s %s", newest.Name, newest.Key, older.Name, older.Key)
	}
	for _, tt := range []struct {
		changed               string
		newestAnew, olderAnew bool
	}{
		{"go.mod", true, false}, {"go.sum", true, false}, {"1.36.mod", false, true}, {"1.36.sum", false, true}, {"main.go", true, true},
	} {
		write(tt.changed)
		newestNow, olderNow := steps()
		if (newestNow.Key != newest.Key) != tt.newestAnew || (olderNow.Key != older.Key) != tt.olderAnew {
			t.Errorf("%s changed: %s was %s, %s was %s", tt.changed, newestNow.Key, newest.Key, olderNow.Key, older.Key)
		}
		newest, older = newestNow, olderNow
	}
}

func TestSource(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Source(filepath.Join(root, "lab", "build")); err != nil || got != root {
		t.Errorf("Source = %s, %v; want %s", got, err, root)
	}
	if _, err := Source(t.TempDir()); err == nil || !strings.Contains(err.Error(), "--source") {
		t.Errorf("outside a checkout: %v", err)
	}
}
