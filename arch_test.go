// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plumbline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const modulePath = "plumbline.dev/plumbline"

// importTable says which packages of this module a package may import, by
// path below the module; a trailing /... takes everything below. It is the
// table of the architecture: a new arrow between rooms is a decision, made
// here.
var importTable = []struct {
	packages string
	may      []string
}{
	{"internal/model", nil},
	{"internal/model/slicecodec", []string{"internal/model"}},
	{"internal/model/affinity", []string{"internal/model"}},
	{"internal/nccltopo", []string{"internal/model"}},
	{"internal/host/...", []string{"internal/host/...", "internal/model"}},
	{"internal/deviceplugin", nil},
	{"internal/inventory", []string{"internal/model/...", "internal/host/..."}},
	{"internal/inventory/inventorytest", []string{"internal/inventory", "internal/machine", "internal/model"}},
	{"internal/inventory/filter", []string{"internal/model/..."}},
	{"internal/devicehealth", []string{"internal/model/...", "internal/host/..."}},
	{"internal/addresspool", nil},
	{"internal/hostpolicy", []string{"internal/model/...", "internal/host/...", "internal/hostsetup", "internal/atomicfile"}},
	{"internal/hostsetup", []string{"internal/model", "internal/host/pciconfig", "internal/host/sriov", "internal/atomicfile"}},
	{"internal/machine/...", []string{"internal/machine/...", "internal/model/...", "internal/host/...", "machines"}},
	{"machines", nil},
	{"api/...", []string{"internal/strictjson", "internal/suggest"}},
	{"internal/strictjson", []string{"internal/suggest"}},
	{"internal/vendorconfig/...", []string{"internal/strictjson"}},
	{"internal/suggest", nil},
	{"internal/plural", nil},
	{"internal/printable", nil},
	{"internal/bench/stats", nil},
	{"internal/bench/plan", []string{"internal/bench/tools/...", "internal/model/slicecodec", "internal/printable"}},
	{"internal/bench/report", []string{"internal/bench/plan", "internal/bench/stats", "internal/plural", "internal/printable"}},
	{"internal/bench/run", []string{"internal/bench/plan", "internal/bench/report", "internal/bench/stats", "internal/model/slicecodec", "internal/printable", "internal/version"}},
	{"internal/bench/tools", []string{"internal/printable"}},
	{"internal/bench/tools/...", []string{"internal/bench/tools"}},
	{"internal/driver", []string{"internal/model/..."}},
	{"internal/driver/cpu", []string{"internal/driver", "internal/driver/cpu/placement", "internal/model/...", "api/..."}},
	{"internal/driver/cpu/placement", []string{"internal/model"}},
	{"internal/driver/...", []string{"internal/driver", "internal/model/..."}},
	{"internal/driver/netdev/...", []string{
		"internal/driver", "internal/driver/netdev/...", "internal/model/...", "api/...", "internal/host/...", "internal/nccltopo", "internal/addresspool",
	}},
	{"internal/atomicfile", nil},
	{"internal/ociimage", []string{"internal/atomicfile"}},
	{"internal/release", []string{"internal/ociimage", "deploy/..."}},
	{"internal/journal", []string{"internal/driver", "internal/atomicfile"}},
	{"internal/cdi", []string{"internal/driver"}},
	{"internal/devicemetadata", []string{"internal/driver", "internal/atomicfile", "internal/model/slicecodec"}},
	{"internal/cloud", []string{"internal/driver", "internal/model/...", "internal/atomicfile", "api/..."}},
	{"internal/cloud/...", []string{"internal/cloud", "internal/cloud/imds", "internal/model", "api/..."}},
	{"internal/cloud/providers", []string{"internal/cloud/..."}},
	{"internal/agent", []string{
		"internal/agent/...", "internal/kube", "internal/metrics/...", "internal/unixhttp", "internal/verify/...", "internal/model/...", "internal/machine", "internal/host/...", "internal/inventory/...", "internal/devicehealth",
		"internal/cloud/...", "internal/deviceplugin", "internal/driver/...", "internal/guard", "internal/journal", "internal/cdi", "internal/devicemetadata",
		"internal/hostpolicy", "internal/hostsetup", "internal/nccltopo", "api/hosts/...",
	}},
	{"internal/agent/addressblocks", []string{"api/net/...", "internal/addresspool", "internal/atomicfile"}},
	{"internal/agent/hostpolicies", []string{"api/hosts/...", "internal/host/rdma", "internal/hostpolicy", "internal/kube", "internal/model", "internal/printable"}},
	{"internal/agent/hostreport", []string{
		"api/hosts/...", "internal/agent/status", "internal/doctor", "internal/host/dcb", "internal/kube", "internal/model/...", "internal/printable",
	}},
	{"internal/agent/agenttest", []string{"internal/driver", "internal/model/..."}},
	{"internal/agent/deviceplugins", []string{"internal/deviceplugin", "internal/host/procfs", "internal/model"}},
	{"internal/agent/claims", []string{
		"internal/metrics", "internal/agent/status", "internal/cdi", "internal/devicemetadata", "internal/driver", "internal/guard", "internal/journal",
		"internal/model/...",
	}},
	{"internal/operator", []string{
		"api/hosts/...", "api/net/...", "internal/kube", "internal/metrics/...", "internal/operator/...", "internal/unixhttp",
	}},
	{"internal/operator/explainer", []string{
		"internal/printable",
		"internal/kube", "internal/metrics", "internal/allocation", "internal/driver", "internal/explain/...",
	}},
	{"internal/operator/addresspools", []string{"api/hosts/...", "api/net/...", "internal/addresspool", "internal/plural"}},
	{"internal/operator/uninstall", []string{"api/hosts/...", "api/net/...", "internal/operator/nodestatus", "internal/plural"}},
	{"internal/operator/nodestatus", []string{"api/hosts/...", "internal/kube", "internal/plural", "internal/printable"}},
	{"internal/operator/installation", []string{"api/hosts/...", "internal/kube", "internal/model/slicecodec"}},
	{"internal/version", nil},
	{"internal/unixhttp", nil},
	{"internal/metrics", nil},
	{"internal/metrics/endpoint", nil},
	{"internal/guard", []string{"internal/driver/netdev/nslink", "internal/host/netns", "internal/host/rdma", "internal/host/rtnl", "internal/host/sysfs", "internal/model", "internal/atomicfile"}},
	{"internal/kube", []string{"api/hosts/...", "api/net/...", "internal/atomicfile", "internal/driver"}},
	{"internal/agent/publish", []string{"internal/inventory", "internal/model/..."}},
	{"internal/agent/podclaims", []string{"internal/agent/runtimestate", "internal/cdi", "internal/driver", "internal/kube"}},
	{"internal/agent/pinning", []string{
		"internal/agent/claims", "internal/agent/podclaims", "internal/agent/runtimestate", "internal/agent/status", "internal/driver",
		"internal/host/cgroup", "internal/kube", "internal/metrics", "internal/model",
	}},
	{"internal/agent/leave", []string{"internal/agent/registration", "internal/cdi", "internal/journal"}},
	{"internal/agent/preflight", []string{"internal/doctor", "internal/driver/netdev", "internal/host/netns", "internal/inventory", "internal/journal", "internal/printable"}},
	{"internal/agent/registration", []string{"internal/agent/claims", "internal/cdi", "internal/driver", "internal/model/..."}},
	{"internal/agent/runtimehooks", []string{
		"internal/agent/claims", "internal/metrics", "internal/agent/pinning", "internal/agent/podclaims", "internal/agent/runtimestate", "internal/agent/status",
		"internal/cdi", "internal/driver", "internal/host/netns", "internal/kube",
	}},
	{"internal/agent/runtimestate", []string{"internal/cdi"}},
	{"internal/agent/status", []string{"internal/driver", "internal/kube", "internal/model/..."}},
	{"internal/allocation", nil},
	{"internal/claimgen", []string{"internal/model/slicecodec", "internal/vendorconfig/...", "api/..."}},
	{"internal/nodeslices", []string{"internal/cloud/...", "internal/inventory", "internal/machine", "internal/model/..."}},
	{"internal/agent/verifying", []string{
		"internal/metrics", "internal/agent/status", "internal/driver", "internal/model/...", "internal/verify", "internal/verify/...",
	}},
	{"internal/cli/claim/fit", []string{
		"internal/printable",
		"internal/plural",
		"internal/claimgen", "internal/cli/cmdutil", "internal/explain", "internal/machine", "internal/model/slicecodec", "internal/simulate",
		"deploy",
	}},
	{"internal/cli/claim/generate", []string{"internal/claimgen", "internal/cli/claim/fit", "internal/cli/cmdutil", "internal/model/slicecodec"}},
	{"internal/simulate", []string{"internal/printable", "internal/plural", "internal/allocation", "internal/explain/...", "internal/machine", "internal/nodeslices", "internal/topoview/..."}},
	{"internal/topoview", []string{"internal/printable", "internal/plural", "internal/model/..."}},
	{"internal/topoview/published", []string{"internal/deviceplugin", "internal/plural", "internal/model/...", "internal/topoview/..."}},
	{"internal/topoview/svg", []string{"internal/printable", "internal/plural", "internal/topoview/..."}},
	{"internal/verify", []string{"internal/verify/...", "internal/model/..."}},
	{"internal/verify/verifytest", []string{
		"internal/verify/collect", "internal/verify/expect", "internal/model/...", "internal/machine", "internal/inventory",
	}},
	{"internal/verify/collect", []string{"internal/host/...", "internal/model"}},
	{"internal/verify/expect", []string{"internal/deviceplugin", "internal/model/...", "api/..."}},
	{"internal/verify/nearest", []string{"internal/model", "internal/model/affinity"}},
	{"internal/verify/evaluate", []string{"internal/verify/expect", "internal/verify/collect", "internal/verify/nearest", "internal/model/..."}},
	{"internal/selector", nil},
	{"internal/explain/...", []string{"internal/printable", "internal/plural", "internal/allocation", "internal/explain/...", "internal/model/...", "internal/selector", "internal/suggest"}},
	{"internal/explain/mus", nil},
	{"internal/explain/solver", nil},
	{"internal/explain/explaintest", []string{"internal/allocation", "internal/explain/...", "internal/machine", "internal/model/...", "internal/nodeslices", "deploy"}},
	{"internal/cli/cmdutil", nil},
	{"internal/doctor", []string{"internal/host/dcb", "internal/host/kmsg", "internal/host/pciconfig", "internal/model", "internal/model/affinity", "internal/plural", "internal/printable", "internal/suggest", "api/hosts/..."}},
	{"internal/cli/doctor", []string{
		"api/hosts/...", "internal/atomicfile", "internal/printable", "internal/plural", "internal/cli/cmdutil", "internal/doctor", "internal/host/dcb", "internal/host/kmsg", "internal/host/netns", "internal/inventory", "internal/kube", "internal/model/slicecodec", "internal/machine", "internal/version",
	}},
	{"internal/cli/bench", []string{"internal/atomicfile", "internal/bench/...", "internal/cli/cmdutil", "internal/printable", "internal/verify"}},
	{"internal/cli/uninstall", []string{"api/hosts/...", "internal/cdi", "internal/cli/cmdutil", "internal/model/slicecodec", "internal/plural", "internal/printable"}},
	{"internal/cli/explain", []string{
		"internal/suggest", "internal/allocation", "internal/cli/cmdutil", "internal/explain/...", "internal/machine", "internal/nodeslices", "deploy",
	}},
	{"internal/cli/claim", []string{
		"internal/plural",
		"internal/cli/claim/fit", "internal/cli/claim/generate", "internal/cli/claim/policy", "internal/cli/cmdutil", "internal/selector", "internal/driver", "internal/model/...",
		"internal/allocation", "internal/explain/...", "internal/simulate",
		// lint asks the driver what it would say of a claim's parameters.
		"internal/driver/netdev",
		// And the agent and the operator of HostPolicies and pools.
		"internal/agent/hostpolicies", "internal/addresspool", "internal/kube",
		"internal/suggest",
		"internal/vendorconfig/...",
		"api/...", "deploy",
	}},
	{"internal/cli/claim/policy", []string{"api/..."}},
	{"internal/cli/verify", []string{
		"internal/cli/cmdutil", "internal/verify", "internal/verify/...", "internal/host/netns", "internal/inventory", "internal/model",
	}},
	{"internal/cli", []string{
		"internal/cli/...", "internal/version", "internal/model/...", "internal/machine", "internal/host/...", "internal/inventory", "internal/nodeslices",
		"internal/deviceplugin", "internal/nccltopo", "internal/topoview/...",
	}},
	{"deploy", nil},
	{"deploy/...", []string{"deploy"}},
	{"docs/docstest", []string{"internal/golden"}},
	{"internal/cli/clitest", []string{"docs/docstest", "internal/golden"}},
	{"internal/golden", nil},
	{"examples", nil},
	{"examples/cloud-profiles", nil},
	{"hack/...", nil},
	{"hack/release", []string{"internal/release"}},
	{"hack/picture", []string{"internal/machine", "internal/inventory", "internal/topoview"}},
	{"cmd/plumbline-agent", []string{"internal/agent", "internal/agent/leave", "internal/agent/preflight", "internal/host/procfs", "internal/host/sysfs", "internal/hostsetup", "internal/model/slicecodec", "internal/unixhttp"}},
	{"cmd/plumbline-operator", []string{"internal/operator", "internal/operator/explainer", "internal/operator/uninstall", "internal/unixhttp", "internal/version"}},
	{"cmd/plumbline-guard", []string{"internal/guard"}},
	{"cmd/plumbline", []string{"internal/cli"}},
}

// libraryOwners confines a library to the packages that exist to wrap it.
var libraryOwners = map[string][]string{
	"cloud.google.com/go/compute/metadata":             {"internal/cloud/gce"},
	"github.com/vishvananda/netlink":                   {"internal/host/rtnl", "internal/host/rdma", "internal/host/ethtool"},
	"github.com/safchain/ethtool":                      {"internal/host/ethtool"},
	"github.com/cilium/ebpf":                           {"internal/host/bpf", "internal/host/hosttest/bpftest"},
	"github.com/insomniacslk/dhcp":                     {"internal/host/dhcp", "internal/host/hosttest/dhcpserver"},
	"github.com/containerd/nri":                        {"internal/agent/pinning", "internal/agent/runtimehooks", "internal/agent/runtimestate"},
	"github.com/containerd/ttrpc":                      {"internal/agent/runtimehooks"},
	"tags.cncf.io/container-device-interface":          {"internal/cdi"},
	"github.com/google/go-containerregistry":           {"internal/ociimage", "internal/release"},
	"github.com/spdx/tools-golang":                     {"internal/release"},
	"github.com/prometheus/client_golang":              {"internal/metrics"},
	"k8s.io/dynamic-resource-allocation/resourceslice": {"internal/agent/publish"},
	"k8s.io/dynamic-resource-allocation/structured":    {"internal/allocation"},
}

type goPackage struct {
	ImportPath, Dir, Name, Doc string
	GoFiles, Imports           []string
	Deps                       []string
}

func (p goPackage) path() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, modulePath), "/")
}

func listPackages(t *testing.T, args ...string) []goPackage {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Name,Doc,GoFiles,Imports,Deps"}, args...)...).Output()
	if err != nil {
		t.Fatalf("list packages: %v", err)
	}
	var packages []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); err == io.EOF {
			return packages
		} else if err != nil {
			t.Fatalf("decode package list: %v", err)
		}
		packages = append(packages, p)
	}
}

func matches(pattern, path string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == below || strings.HasPrefix(path, below+"/")
	}
	return pattern == path
}

func TestImportTable(t *testing.T) {
	for _, p := range listPackages(t, "./...") {
		if p.path() == "" {
			continue
		}
		may, listed := allowedImports(p.path())
		if !listed {
			t.Errorf("package %s is not in the import table: add a row that says what it may import", p.path())
			continue
		}
		for _, imported := range p.Imports {
			path, ours := strings.CutPrefix(imported, modulePath+"/")
			if !ours {
				continue
			}
			if !slices.ContainsFunc(may, func(pattern string) bool { return matches(pattern, path) }) {
				t.Errorf("%s imports %s, which the import table does not allow", p.path(), path)
			}
		}
	}
}

// allowedImports finds the most exact row.
func allowedImports(path string) (may []string, listed bool) {
	at := rowOf(path)
	if at < 0 {
		return nil, false
	}
	return importTable[at].may, true
}

// rowOf is the index of the most exact row of a package, -1 if there is none.
func rowOf(path string) int {
	at, best := -1, -1
	for i, row := range importTable {
		if matches(row.packages, path) && len(strings.TrimSuffix(row.packages, "/...")) > best {
			at, best = i, len(strings.TrimSuffix(row.packages, "/..."))
		}
	}
	return at
}

// A row of a package that is gone, and an arrow that nobody takes any more, would let
// the next one in unseen.
func TestImportTableHasNoDeadRows(t *testing.T) {
	rows := make([]bool, len(importTable))
	arrows := map[[2]string]bool{} // row and what it may import
	for _, p := range listPackages(t, "./...") {
		at := rowOf(p.path())
		if at < 0 || p.path() == "" {
			continue
		}
		rows[at] = true
		for _, imported := range p.Imports {
			for _, may := range importTable[at].may {
				if path, ours := strings.CutPrefix(imported, modulePath+"/"); ours && matches(may, path) {
					arrows[[2]string{importTable[at].packages, may}] = true
				}
			}
		}
	}
	for i, row := range importTable {
		if !rows[i] {
			t.Errorf("row %s: there is no such package, or each has a row of its own: remove it", row.packages)
			continue
		}
		for _, may := range row.may {
			if !arrows[[2]string{row.packages, may}] {
				t.Errorf("row %s: none of it imports %s: remove the arrow", row.packages, may)
			}
		}
	}
}

func TestLibrariesStayWithTheirOwners(t *testing.T) {
	uses := map[[2]string]bool{} // library and owner
	for _, p := range listPackages(t, "./...") {
		for _, imported := range p.Imports {
			for library, owners := range libraryOwners {
				if !strings.HasPrefix(imported, library) {
					continue
				}
				uses[[2]string{library, p.path()}] = true
				if !slices.Contains(owners, p.path()) {
					t.Errorf("%s imports %s, which belongs to %s", p.path(), imported, strings.Join(owners, ", "))
				}
			}
		}
	}
	for library, owners := range libraryOwners {
		for _, owner := range owners {
			if !uses[[2]string{library, owner}] {
				t.Errorf("%s does not import %s any more: it is no owner", owner, library)
			}
		}
	}
}

func TestEveryPackageSaysWhatLivesHere(t *testing.T) {
	for _, p := range listPackages(t, "./...") {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("package %s has no package comment", p.path())
		}
	}
}

func TestBinariesCarryNoTestCode(t *testing.T) {
	for _, p := range listPackages(t, "./cmd/...") {
		for _, dep := range p.Deps {
			if dep == "testing" || strings.HasPrefix(dep, "testing/") || strings.HasSuffix(dep, "/hosttest") || strings.HasSuffix(dep, "/agenttest") || strings.HasSuffix(dep, "/verifytest") || strings.HasSuffix(dep, "/inventorytest") {
				t.Errorf("%s links %s", p.path(), dep)
			}
		}
	}
}

func TestLicenceHeaders(t *testing.T) {
	const notice = "Copyright The plumbline authors\n%s SPDX-License-Identifier: Apache-2.0\n"
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatalf("list files: %v", err)
	}
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		comment := commentOf(path)
		if comment == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		header := comment + " " + fmt.Sprintf(notice, comment)
		if at := bytes.Index(text, []byte(header)); at < 0 || bytes.Count(text[:at], []byte("\n")) > 2 {
			t.Errorf("%s does not start with the licence header", path)
		}
	}
}

// commentOf is how the files that carry a licence header comment; the mission's
// manifests are its own text, and goldens are generated.
func commentOf(path string) string {
	switch {
	case strings.Contains(path, "testdata/"):
		return ""
	case filepath.Ext(path) == ".go":
		return "//"
	case filepath.Ext(path) == ".sh", path == "Makefile", path == ".ci/run", path == ".golangci.yaml",
		strings.HasPrefix(path, "machines/") && filepath.Ext(path) == ".yaml",
		strings.HasPrefix(path, "hack/") && filepath.Ext(path) == "":
		return "#"
	}
	return ""
}
