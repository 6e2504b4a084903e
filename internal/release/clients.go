// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/ociimage"
)

// writeClients builds the command line tool for each platform, packs it into dir,
// and returns the names of the archives by platform.
func (s Source) writeClients(ctx context.Context, work, dir string) (map[Platform]string, error) {
	licence, err := os.ReadFile(filepath.Join(s.Dir, "LICENSE"))
	if err != nil {
		return nil, fmt.Errorf("read the licence: %w", err)
	}
	names := map[Platform]string{}
	for _, p := range clientPlatforms {
		built := filepath.Join(work, p.String())
		if err := s.Build(ctx, p, []string{Client}, built); err != nil {
			return nil, err
		}
		archive, err := gzipped(ociimage.Layer{
			Programs: map[string]string{Client: filepath.Join(built, Client)},
			Links:    map[string]string{"kubectl-" + Client: Client},
			Files:    map[string]string{"LICENSE": string(licence)},
			Time:     s.Time,
		})
		if err != nil {
			return nil, err
		}
		names[p] = fmt.Sprintf("%s-%s-%s.tar.gz", Client, s.Version, p)
		if err := os.WriteFile(filepath.Join(dir, names[p]), archive, 0o644); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// krewPlugin is the manifest of a plugin of kubectl (krew's developer guide, API
// version krew.googlecontainertools.github.com/v1alpha2).
type krewPlugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Bin      string       `json:"bin"`
}

type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// krewManifest describes the archives in dir, which will be downloaded from below
// base.
func (s Source) krewManifest(dir, base string, archives map[Platform]string) ([]byte, error) {
	plugin := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin",
		Metadata: map[string]string{"name": Client},
		Spec: krewSpec{
			Version: "v" + s.Version, Homepage: "https://plumbline.dev",
			ShortDescription: "See, claim and prove GPU, NIC and CPU alignment",
			Description: "Draws nodes and pods with the PCIe roots and NUMA nodes of their devices,\n" +
				"explains why a claim is not allocated, writes claims, and verifies that\n" +
				"running pods have what they claim.\n",
		},
	}
	for _, p := range clientPlatforms {
		sum, err := checksum(filepath.Join(dir, archives[p]))
		if err != nil {
			return nil, err
		}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, krewPlatform{
			Selector: krewSelector{MatchLabels: map[string]string{"os": p.OS, "arch": p.Architecture}},
			URI:      base + "/" + archives[p], SHA256: sum, Bin: Client,
		})
	}
	return yaml.Marshal(plugin)
}
