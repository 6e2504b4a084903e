// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"

	"plumbline.dev/plumbline/deploy"
)

// kubeVersion is the release the chart is rendered for: the newest that the
// pinned client libraries know.
const kubeVersion = "v1.37.0"

// Chart renders the chart for a namespace. The values override those of
// values.yaml key by key; nil means the defaults. The manifests come as one
// YAML stream in Helm's install order (namespaces before what they hold), each
// under a comment naming its template. A value that values.schema.json does
// not allow, or that a template refuses, is an error naming it.
func Chart(namespace string, values map[string]any) ([]byte, error) {
	return chartWith(namespace, values, renderAlone)
}

// Files renders the chart whose files lie at the root of a tree, as Chart does the
// embedded one.
func Files(root fs.FS, namespace string, values map[string]any) ([]byte, error) {
	loaded, err := load(root)
	if err != nil {
		return nil, err
	}
	return render(loaded, namespace, values, renderAlone)
}

// renderAlone renders without a cluster: the function lookup finds nothing.
func renderAlone(c *chart.Chart, v chartutil.Values) (map[string]string, error) {
	return engine.Render(c, v)
}

// chartWith is Chart with the engine's entry of choice.
func chartWith(namespace string, values map[string]any,
	run func(*chart.Chart, chartutil.Values) (map[string]string, error)) ([]byte, error) {
	root, err := deploy.Chart()
	if err != nil {
		return nil, fmt.Errorf("open the embedded chart: %w", err)
	}
	loaded, err := load(root)
	if err != nil {
		return nil, err
	}
	return render(loaded, namespace, values, run)
}

func render(loaded *chart.Chart, namespace string, values map[string]any,
	run func(*chart.Chart, chartutil.Values) (map[string]string, error)) ([]byte, error) {
	kube, err := chartutil.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, fmt.Errorf("parse Kubernetes version %q: %w", kubeVersion, err)
	}
	release := chartutil.ReleaseOptions{Name: loaded.Name(), Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, values, release, &chartutil.Capabilities{KubeVersion: *kube})
	if err != nil {
		return nil, fmt.Errorf("check values of chart %s: %w", loaded.Name(), err)
	}
	files, err := run(loaded, all)
	if err != nil {
		return nil, fmt.Errorf("render chart %s: %w", loaded.Name(), err)
	}
	return stream(files)
}

// load reads a chart.
func load(root fs.FS) (*chart.Chart, error) {
	var files []*loader.BufferedFile
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		files = append(files, &loader.BufferedFile{Name: name, Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("load the chart: %w", err)
	}
	return loaded, nil
}

// stream joins rendered templates into one YAML stream in install order.
func stream(files map[string]string) ([]byte, error) {
	for name := range files {
		// NOTES.txt is for the helm command, _helpers.tpl yields nothing.
		if path.Ext(name) != ".yaml" {
			delete(files, name)
		}
	}
	_, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, fmt.Errorf("order rendered manifests: %w", err)
	}
	var out bytes.Buffer
	for _, m := range manifests {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", m.Name, strings.TrimSpace(m.Content))
	}
	return out.Bytes(), nil
}
