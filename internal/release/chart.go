// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/deploy/render"
	"plumbline.dev/plumbline/internal/ociimage"
)

// chartDir is the chart's folder in a checkout.
const chartDir = "deploy/charts/plumbline"

// chartEdits are the lines of the chart in which a release differs from the
// checkout, by file. They are lines and not values, so that the comments stay, which
// are the chart's documentation.
func (s Source) chartEdits(repository, digest string) map[string][][2]string {
	return map[string][][2]string{
		"Chart.yaml": {
			{"\nversion: 0.1.0\n", "\nversion: " + s.Version + "\n"},
			{"\nappVersion: dev\n", "\nappVersion: " + s.Version + "\n"},
		},
		"values.yaml": {
			{"\n  repository: " + Repository + "\n", "\n  repository: " + repository + "\n"},
			{"\n  digest: \"\"\n", "\n  digest: " + digest + "\n"},
		},
	}
}

// writeChart copies the checkout's chart into dir, which names the image by its
// digest then.
func (s Source) writeChart(dir, repository, digest string) error {
	edits := s.chartEdits(repository, digest)
	source := os.DirFS(filepath.Join(s.Dir, chartDir))
	return fs.WalkDir(source, ".", func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(dir, at), 0o755)
		}
		data, err := fs.ReadFile(source, at)
		if err != nil {
			return err
		}
		text := string(data)
		for _, edit := range edits[at] {
			if strings.Count(text, edit[0]) != 1 {
				return fmt.Errorf("write %s of the chart: want the line %q once", at, strings.TrimSpace(edit[0]))
			}
			text = strings.Replace(text, edit[0], edit[1], 1)
		}
		return os.WriteFile(filepath.Join(dir, at), []byte(text), 0o644)
	})
}

// Chart is the chart of a release as "helm package" packs it. It names the image of
// the repository by its digest.
func (s Source) Chart(repository, digest string) (packed []byte, err error) {
	dir, err := os.MkdirTemp("", "plumbline-chart-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := s.writeChart(dir, repository, digest); err != nil {
		return nil, err
	}
	return s.packChart(dir)
}

// packChart packs the chart in dir as "helm package" does, but with the commit's
// time, and returns it.
func (s Source) packChart(dir string) ([]byte, error) {
	content := ociimage.Layer{Files: map[string]string{}, Time: s.Time}
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, at)
		content.Files[path.Join("plumbline", at)] = string(data)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("pack the chart: %w", err)
	}
	return gzipped(content)
}

// manifests are the renderings of the chart in dir for users without Helm.
func (s Source) manifests(dir string) (map[string][]byte, error) {
	// Applied, a class would take the place of one that is there.
	install := map[string]any{"namespace": map[string]any{"create": true}, "deviceClasses": map[string]any{"create": []any{}}}
	observe := map[string]any{
		"observe": true, "namespace": map[string]any{"create": true}, "priorityClassQuota": map[string]any{"create": false},
	}
	files := map[string][]byte{"deviceclasses.yaml": deploy.DeviceClasses()}
	for name, values := range map[string]map[string]any{"install.yaml": install, "observe.yaml": observe} {
		rendered, err := render.Files(os.DirFS(dir), deploy.Namespace, values)
		if err != nil {
			return nil, err
		}
		files[name] = rendered
	}
	return files, nil
}
