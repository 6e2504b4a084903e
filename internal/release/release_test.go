// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	spdxjson "github.com/spdx/tools-golang/json"
	"helm.sh/helm/v3/pkg/chart/loader"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/host/pciids"
	"plumbline.dev/plumbline/internal/ociimage"
)

// checkout is this checkout, as of a commit that never was.
func checkout(t *testing.T) Source {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return Source{Dir: root, Version: "1.2.3", Commit: strings.Repeat("a", 40), Time: time.Date(2026, 11, 23, 1, 2, 3, 0, time.UTC)}
}

// Whoever builds a commit, and wherever, gets the same image.
func TestTwoBuildsOneDigest(t *testing.T) {
	if testing.Short() {
		t.Skip("links the image's programs twice")
	}
	here := checkout(t)
	there := here
	there.Dir = copyOf(t, here.Dir)
	var digests []v1.Hash
	var boms [][]byte
	for i, source := range []Source{here, there} {
		t.Setenv("TZ", []string{"UTC", "Asia/Kathmandu"}[i])
		t.Setenv("GOFLAGS", []string{"", "-mod=mod -tags=other"}[i])
		image, err := source.Image(t.Context(), t.TempDir(), "amd64")
		if err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
		boms = append(boms, image.BOMs["amd64"])
	}
	if digests[0] != digests[1] {
		t.Errorf("two builds of one commit: %s and %s", digests[0], digests[1])
	}
	if !bytes.Equal(boms[0], boms[1]) {
		t.Error("the bills of materials of two builds differ")
	}
	checkBillOfMaterials(t, boms[0])
}

// copyOf is a copy of a checkout's files, without git's.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = dir
	names, err := list.Output()
	if err != nil {
		t.Fatalf("list the checkout's files: %v", err)
	}
	there := t.TempDir()
	for at := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(dir, at))
		if os.IsNotExist(err) {
			continue // removed, not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(there, filepath.Dir(at)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(there, at), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return there
}

func TestPCINames(t *testing.T) {
	h100, connectX7 := pciids.ID{Vendor: 0x10de, Device: 0x2330}, pciids.ID{Vendor: 0x15b3, Device: 0x1021}
	got, err := pciids.Lookup(strings.NewReader(pciNames()), []pciids.ID{h100, connectX7})
	if err != nil {
		t.Fatal(err)
	}
	want := map[pciids.ID]pciids.Name{
		h100:      {Vendor: "NVIDIA Corporation", Device: "GH100 [H100 SXM5 80GB]"},
		connectX7: {Vendor: "Mellanox Technologies", Device: "MT2910 Family [ConnectX-7]"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

const someDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestChartNamesTheImageByItsDigest(t *testing.T) {
	source, dir := checkout(t), t.TempDir()
	if err := source.writeChart(dir, "registry.example.com/plumbline", someDigest); err != nil {
		t.Fatal(err)
	}
	packed, err := source.packChart(dir)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loader.LoadArchive(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Name() != "plumbline" || loaded.Metadata.Version != "1.2.3" || loaded.AppVersion() != "1.2.3" {
		t.Errorf("packed chart %s, version %s of plumbline %s", loaded.Name(), loaded.Metadata.Version, loaded.AppVersion())
	}
	manifests, err := source.manifests(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"install.yaml", "observe.yaml"} {
		images := 0
		for line := range strings.Lines(string(manifests[name])) {
			if image, ok := strings.CutPrefix(strings.TrimSpace(line), "image: "); ok {
				images++
				if want := "registry.example.com/plumbline@" + someDigest; strings.Trim(image, `"`) != want {
					t.Errorf("%s has image %s, want %s", name, image, want)
				}
			}
		}
		if images == 0 {
			t.Errorf("%s names no image", name)
		}
	}
}

func TestChartWithoutTheLine(t *testing.T) {
	source := checkout(t)
	other := copyOf(t, filepath.Join(source.Dir, chartDir))
	source.Dir = t.TempDir()
	if err := os.MkdirAll(filepath.Join(source.Dir, filepath.Dir(chartDir)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, filepath.Join(source.Dir, chartDir)); err != nil {
		t.Fatal(err)
	}
	values := filepath.Join(source.Dir, chartDir, "values.yaml")
	data, err := os.ReadFile(values)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(values, bytes.ReplaceAll(data, []byte("  digest:"), []byte("  hash:")), 0o644); err != nil {
		t.Fatal(err)
	}
	err = source.writeChart(t.TempDir(), Repository, someDigest)
	if err == nil || !strings.Contains(err.Error(), `values.yaml of the chart: want the line "digest:`) {
		t.Errorf("got %v", err)
	}
}

// checkBillOfMaterials checks that the document is whole, and knows what an agent is
// linked from.
func checkBillOfMaterials(t *testing.T, data []byte) {
	t.Helper()
	doc, err := spdxjson.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	known, purls := map[string]bool{"DOCUMENT": true}, map[string]bool{}
	for _, p := range doc.Packages {
		if known[string(p.PackageSPDXIdentifier)] {
			t.Errorf("two packages are %s", p.PackageSPDXIdentifier)
		}
		known[string(p.PackageSPDXIdentifier)] = true
		for _, r := range p.PackageExternalReferences {
			purls[r.Locator] = true
		}
	}
	for _, r := range doc.Relationships {
		if a, b := string(r.RefA.ElementRefID), string(r.RefB.ElementRefID); !known[a] || !known[b] {
			t.Errorf("%s %s %s: one of them is no package of the document", a, r.Relationship, b)
		}
	}
	for _, want := range []string{"pkg:golang/github.com/containerd/nri@v", "pkg:golang/k8s.io/client-go@v", "pkg:golang/stdlib@1."} {
		found := false
		for purl := range purls {
			found = found || strings.HasPrefix(purl, want)
		}
		if !found {
			t.Errorf("no package %s", want)
		}
	}
}

// sample is an image of two architectures with next to nothing in it.
func sample(t *testing.T) Image {
	t.Helper()
	image := Image{ByArchitecture: map[string]v1.Image{}, BOMs: map[string][]byte{}}
	for _, architecture := range Architectures {
		packed, err := ociimage.Compressed(ociimage.Image{
			Layer: ociimage.Layer{Files: map[string]string{"/etc/architecture": architecture}}, Architecture: architecture,
		})
		if err != nil {
			t.Fatal(err)
		}
		image.ByArchitecture[architecture] = packed
		image.BOMs[architecture] = []byte(`{"spdxVersion":"SPDX-2.3","name":"` + architecture + `"}`)
	}
	var err error
	if image.Index, err = ociimage.Index(image.ByArchitecture, checkout(t).labels()); err != nil {
		t.Fatal(err)
	}
	return image
}

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	image := sample(t)
	reference := strings.TrimPrefix(server.URL, "http://") + "/some/plumbline:1.2.3"
	for range 2 { // a second time there is nothing to do
		if err := image.Push(t.Context(), reference); err != nil {
			t.Fatal(err)
		}
	}
	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	want, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pulled.Digest(); err != nil || got != want {
		t.Errorf("pulled %s, %v; pushed %s", got, err, want)
	}
	manifest, err := pulled.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		about, err := remote.Referrers(tag.Digest(m.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		list, err := about.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Manifests) != 1 || list.Manifests[0].ArtifactType != mediaTypeSPDX {
			t.Errorf("documents about the image for %s: %+v, want one %s", m.Platform, list.Manifests, mediaTypeSPDX)
		}
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Error(diff)
	}
}

func TestPushRefuses(t *testing.T) {
	server := httptest.NewServer(registry.New())
	server.Close()
	for reference, want := range map[string]string{
		"Upper/case:1": "want HOST/NAME:TAG",
		"a b":          "want HOST/NAME:TAG",
		strings.TrimPrefix(server.URL, "http://") + "/plumbline:1": "connection refused",
	} {
		if err := sample(t).Push(t.Context(), reference); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("push to %q: %v, want %q", reference, err, want)
		}
	}
}

func TestKrewManifest(t *testing.T) {
	dir, archives := t.TempDir(), map[Platform]string{}
	for _, p := range clientPlatforms {
		archives[p] = "plumbline-" + p.String() + ".tar.gz"
		if err := os.WriteFile(filepath.Join(dir, archives[p]), []byte(p.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := checkout(t).krewManifest(dir, "https://example.com/v1.2.3", archives)
	if err != nil {
		t.Fatal(err)
	}
	var plugin krewPlugin
	if err := yaml.UnmarshalStrict(data, &plugin); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range plugin.Spec.Platforms {
		if len(p.SHA256) != 64 {
			t.Errorf("%s: SHA-256 %q", p.URI, p.SHA256)
		}
		got = append(got, p.Selector.MatchLabels["os"]+" "+p.Selector.MatchLabels["arch"]+" "+p.URI)
	}
	slices.Sort(got)
	want := []string{
		"darwin amd64 https://example.com/v1.2.3/plumbline-darwin-amd64.tar.gz",
		"darwin arm64 https://example.com/v1.2.3/plumbline-darwin-arm64.tar.gz",
		"linux amd64 https://example.com/v1.2.3/plumbline-linux-amd64.tar.gz",
		"linux arm64 https://example.com/v1.2.3/plumbline-linux-arm64.tar.gz",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if plugin.Spec.Version != "v1.2.3" || plugin.Metadata["name"] != "plumbline" {
		t.Errorf("plugin %s %s", plugin.Metadata["name"], plugin.Spec.Version)
	}
}

// A version is the tag's, or the chart's with the commit.
// TestReplaceKilled: wherever it was killed, there is a whole release in the folder or beside
// it, and the next one begins with it and leaves nothing else.
func TestReplaceKilled(t *testing.T) {
	const made, out, old = "release.unfinished", "release", "release.old"
	for name, tc := range map[string]struct {
		// there are the folders that the kill left, with what release is in them.
		there map[string]string
		// want is the release of out once recovered.
		want string
	}{
		"the first one":                  {nil, ""},
		"nothing was killed":             {map[string]string{out: "1"}, "1"},
		"while it was made":              {map[string]string{out: "1", made: "half of 2"}, "1"},
		"the old one aside":              {map[string]string{old: "1", made: "2"}, "1"},
		"the new one in":                 {map[string]string{old: "1", out: "2"}, "2"},
		"while the old one was removed":  {map[string]string{old: "half of 1", out: "2"}, "2"},
		"before there was one, and made": {map[string]string{made: "2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := func(folder string) string { return filepath.Join(dir, folder) }
			write := func(folder, release string) {
				t.Helper()
				if err := os.MkdirAll(at(folder), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(at(folder), "version"), []byte(release), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for folder, release := range tc.there {
				write(folder, release)
			}
			release := func() string {
				data, err := os.ReadFile(filepath.Join(at(out), "version"))
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				return string(data)
			}
			if err := recoverOld(at(out)); err != nil {
				t.Fatal(err)
			}
			if got := release(); got != tc.want {
				t.Errorf("release %q, want %q", got, tc.want)
			}
			write(made, "3")
			if err := replace(at(made), at(out)); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(dir)
			if got := release(); err != nil || got != "3" || len(entries) != 1 {
				t.Errorf("release %q, want 3; %v, %v", got, entries, err)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	source, err := Open(t.Context(), dir)
	if err == nil || !strings.Contains(err.Error(), "Chart.yaml") {
		t.Errorf("a folder without a chart: %v, %v", source, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, chartDir), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, chartDir, "Chart.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("version: 0.4.0\n")
	check := func(what, want string) {
		t.Helper()
		source, err := Open(t.Context(), dir)
		got := source.Version
		if source.Commit != "" {
			got = strings.Replace(got, source.Commit[:7], "COMMIT", 1)
		}
		if err != nil || got != want {
			t.Errorf("%s: version %s, %v; want %s", what, got, err, want)
		}
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", cmd, err, out)
		}
	}
	check("an archive of the source", "0.4.0-dev")
	run("init", "-q")
	run("add", ".")
	run("commit", "-qm", "first")
	check("a commit", "0.4.0-dev.gCOMMIT")
	run("tag", "v0.4.0")
	check("a tag", "0.4.0")
	write("version: 0.4.1\n")
	check("a change", "0.4.1-dev.gCOMMIT.dirty")
}
