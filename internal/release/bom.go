// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// billOfMaterials lists what an image is made of: its programs, and the Go modules
// that each was linked from, as the programs themselves say.
func (s Source) billOfMaterials(dir, architecture string) ([]byte, error) {
	image := s.part("image-"+architecture, Client, s.Version, "CONTAINER")
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: "plumbline-" + s.Version + "-" + architecture,
		// Unique to the document, and an address of nothing (SPDX 2.3, 6.5).
		DocumentNamespace: "https://plumbline.dev/spdx/" + s.Version + "/" + s.Commit + "/" + architecture,
		CreationInfo: &spdx.CreationInfo{
			Created:  s.Time.UTC().Format("2006-01-02T15:04:05Z"),
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "The plumbline authors"}},
		},
		Packages:      []*spdx.Package{image},
		Relationships: []*spdx.Relationship{related("DOCUMENT", common.TypeRelationshipDescribe, string(image.PackageSPDXIdentifier))},
	}
	modules := map[string]*spdx.Package{}
	for _, name := range NodePrograms {
		file := filepath.Join(dir, name)
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read what %s was built from: %w", name, err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		program := s.part("program-"+name, name, s.Version, "APPLICATION")
		sum := sha256.Sum256(data)
		program.PackageFileName = "/usr/bin/" + name
		program.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(sum[:])}}
		doc.Packages = append(doc.Packages, program)
		doc.Relationships = append(doc.Relationships,
			related(string(image.PackageSPDXIdentifier), common.TypeRelationshipContains, string(program.PackageSPDXIdentifier)))
		for _, m := range modulesOf(info) {
			p := modulePackage(m)
			modules[string(p.PackageSPDXIdentifier)] = p
			doc.Relationships = append(doc.Relationships,
				related(string(program.PackageSPDXIdentifier), common.TypeRelationshipDependsOn, string(p.PackageSPDXIdentifier)))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(modules)) {
		doc.Packages = append(doc.Packages, modules[id])
	}
	var out bytes.Buffer
	if err := spdxjson.Write(doc, &out, spdxjson.Indent("  ")); err != nil {
		return nil, fmt.Errorf("write the bill of materials for %s: %w", architecture, err)
	}
	return out.Bytes(), nil
}

// modulesOf are the modules a program was linked from, the standard library among
// them.
func modulesOf(info *debug.BuildInfo) []debug.Module {
	all := []debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, *m)
	}
	return all
}

// part is a package of our own.
func (s Source) part(id, name, version, purpose string) *spdx.Package {
	return &spdx.Package{
		PackageName: name, PackageSPDXIdentifier: identifier(id), PackageVersion: version,
		PackageSupplier:         &common.Supplier{SupplierType: "Organization", Supplier: "The plumbline authors"},
		PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0",
		PackageCopyrightText: "Copyright The plumbline authors", PrimaryPackagePurpose: purpose,
		IsFilesAnalyzedTagPresent: true,
	}
}

func modulePackage(m debug.Module) *spdx.Package {
	p := &spdx.Package{
		PackageName: m.Path, PackageSPDXIdentifier: identifier("go-" + m.Path + "-" + m.Version), PackageVersion: m.Version,
		PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION",
		PackageCopyrightText: "NOASSERTION", PrimaryPackagePurpose: "LIBRARY", IsFilesAnalyzedTagPresent: true,
		// What scanners of known vulnerabilities look up (package-url/purl-spec).
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: "pkg:golang/" + m.Path + "@" + m.Version,
		}},
	}
	if m.Sum != "" {
		p.PackageSourceInfo = "go.sum " + m.Sum
	}
	return p
}

// outsideIdentifier is what SPDX allows in no identifier (2.3, 3.2).
var outsideIdentifier = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

func identifier(text string) common.ElementID {
	return common.ElementID(outsideIdentifier.ReplaceAllString(text, "-"))
}

func related(a, kind, b string) *spdx.Relationship {
	return &spdx.Relationship{
		RefA: common.MakeDocElementID("", a), RefB: common.MakeDocElementID("", b), Relationship: kind,
	}
}
