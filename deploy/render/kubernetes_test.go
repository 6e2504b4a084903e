// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// Agents that serve want a newer API server than those that only look; one that is too
// old for either is refused by Helm itself.
func TestKubernetesOfTheCluster(t *testing.T) {
	for _, tc := range []struct {
		version                    string
		installs, serves, observes bool
	}{
		{"v1.33.9", false, false, true},
		{"v1.34.0", true, false, true},
		{"v1.35.4-gke.1200", true, false, true},
		{"v1.36.0-rc.1", true, true, true},
		{"v1.36.4-eks-3025e55", true, true, true},
		{"v1.37.1", true, true, true},
	} {
		kube, err := chartutil.ParseKubeVersion(tc.version)
		if err != nil {
			t.Fatal(err)
		}
		on := func(c *chart.Chart, v chartutil.Values) (map[string]string, error) {
			if got := chartutil.IsCompatibleRange(c.Metadata.KubeVersion, tc.version); got != tc.installs {
				t.Errorf("%s is one of %s: %t", tc.version, c.Metadata.KubeVersion, got)
			}
			v["Capabilities"] = &chartutil.Capabilities{KubeVersion: *kube}
			return engine.Render(c, v)
		}
		for observe, ok := range map[bool]bool{false: tc.serves, true: tc.observes} {
			_, err := chartWith("plumbline-system", map[string]any{"observe": observe}, on)
			if (err == nil) != ok {
				t.Errorf("%s, observe: %t: %v", tc.version, observe, err)
			}
			if err != nil && !strings.Contains(err.Error(), "want 1.36 or newer to serve devices") {
				t.Error(err)
			}
		}
	}
}
