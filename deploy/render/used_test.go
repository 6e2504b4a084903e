// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/deploy/render"
)

// others are, for each value of values.yaml, one that differs from its default,
// as values in YAML; further ones beside it make it count.
var others = map[string]string{
	"image.repository":                            "image: {repository: example.com/x}",
	"image.tag":                                   "image: {tag: v2}",
	"image.digest":                                "image: {digest: 'sha256:" + strings.Repeat("0", 64) + "'}",
	"image.pullPolicy":                            "image: {pullPolicy: Always}",
	"imagePullSecrets":                            "imagePullSecrets: [{name: s}]",
	"drivers.net.enabled":                         "drivers: {net: {enabled: false}}",
	"drivers.net.nodeSelector":                    "drivers: {net: {nodeSelector: {a: b}}}",
	"drivers.net.dhcp":                            "drivers: {net: {dhcp: false}}",
	"drivers.net.ebpf":                            "drivers: {net: {ebpf: false}}",
	"drivers.net.allowLoss":                       "drivers: {net: {allowLoss: true}}",
	"drivers.net.allowPhysicalFunctions":          "drivers: {net: {allowPhysicalFunctions: true}}",
	"drivers.net.allowInterfaces":                 "drivers: {net: {allowInterfaces: ['nic*']}}",
	"drivers.net.filter":                          "drivers: {net: {filter: 'true'}}",
	"drivers.net.moveIBInterfaces":                "drivers: {net: {moveIBInterfaces: false}}",
	"drivers.net.ncclTopologyFile":                "drivers: {net: {ncclTopologyFile: /opt/microsoft/ndv5/topo.xml}}",
	"drivers.net.dataDirectAsRoot":                "drivers: {net: {dataDirectAsRoot: true}}",
	"drivers.cpu.enabled":                         "drivers: {cpu: {enabled: false}}",
	"drivers.cpu.nodeSelector":                    "drivers: {cpu: {nodeSelector: {a: b}}}",
	"drivers.cpu.deviceMode":                      "drivers: {cpu: {deviceMode: individual}}",
	"drivers.cpu.groupBy":                         "drivers: {cpu: {groupBy: socket}}",
	"drivers.cpu.reservedCPUs":                    "drivers: {cpu: {reservedCPUs: 0-1}}",
	"drivers.cpu.reservedPerNUMA":                 "drivers: {cpu: {reservedPerNUMA: 2}}",
	"drivers.cpu.exposePCIeRoots":                 "drivers: {cpu: {exposePCIeRoots: true}}",
	"drivers.gpu.mode":                            "drivers: {gpu: {mode: simulated, machine: m}}",
	"drivers.gpu.machine":                         "drivers: {gpu: {mode: simulated, machine: other}}",
	"drivers.gpu.nodeSelector":                    "drivers: {gpu: {mode: simulated, machine: m, nodeSelector: {a: b}}}",
	"observe":                                     "observe: true",
	"deviceTaints":                                "deviceTaints: NoExecute",
	"deviceMetadata.enabled":                      "deviceMetadata: {enabled: false}",
	"verify.interval":                             "verify: {interval: 1m}",
	"hostReport.interval":                         "hostReport: {interval: 5m}",
	"hostReport.deviceTaints":                     "hostReport: {deviceTaints: false}",
	"hostSetup.enabled":                           "hostSetup: {enabled: true}",
	"nicDriver.module":                            "nicDriver: {module: bnxt_en, images: [{kernel: 6.1.0, image: x}]}",
	"nicDriver.images":                            "nicDriver: {images: [{kernel: 6.1.0, image: x}]}",
	"operator.enabled":                            "operator: {enabled: false}",
	"operator.replicas":                           "operator: {replicas: 1}",
	"operator.nodeSelector":                       "operator: {nodeSelector: {a: b}}",
	"operator.tolerations":                        "operator: {tolerations: [{operator: Exists}]}",
	"operator.resources.requests.cpu":             "operator: {resources: {requests: {cpu: 1m}}}",
	"operator.resources.requests.memory":          "operator: {resources: {requests: {memory: 1Mi}}}",
	"operator.resources.limits.cpu":               "operator: {resources: {limits: {cpu: 2}}}",
	"operator.resources.limits.memory":            "operator: {resources: {limits: {memory: 2Gi}}}",
	"nodeLabels.enabled":                          "nodeLabels: {enabled: false}",
	"explainer.enabled":                           "explainer: {enabled: false}",
	"explainer.featureGates":                      "explainer: {featureGates: DRAListTypeAttributes=true}",
	"deviceClasses.create":                        "deviceClasses: {create: []}",
	"claimPolicy.enabled":                         "claimPolicy: {enabled: false}",
	"claimPolicy.action":                          "claimPolicy: {action: Deny}",
	"claimPolicy.deny":                            "claimPolicy: {deny: [umad]}",
	"claimPolicy.guarded":                         "claimPolicy: {guarded: [umad]}",
	"nameClaims.enabled":                          "nameClaims: {enabled: false}",
	"metrics.enabled":                             "metrics: {enabled: true}",
	"metrics.address":                             "metrics: {enabled: true, address: ':1'}",
	"metrics.tlsSecret":                           "metrics: {enabled: true, tlsSecret: s}",
	"metrics.prometheusRule.create":               "metrics: {prometheusRule: {create: true}}",
	"metrics.prometheusRule.labels":               "metrics: {prometheusRule: {create: true, labels: {a: b}}}",
	"metrics.dashboard.create":                    "metrics: {dashboard: {create: true}}",
	"http.bindAddress":                            "http: {bindAddress: ':1'}",
	"cloud.provider":                              "cloud: {provider: none}",
	"cloud.profileProvider":                       "cloud: {profileProvider: none}",
	"cloud.webhookURL":                            "cloud: {webhookURL: 'https://w'}",
	"cloud.metadataEndpoint":                      "cloud: {metadataEndpoint: m}",
	"nodeSelector":                                "nodeSelector: {a: b}",
	"nodeMatchExpressions":                        "nodeMatchExpressions: [{key: a, operator: Exists}]",
	"tolerations":                                 "tolerations: []",
	"priorityClassName":                           "priorityClassName: x",
	"priorityClassQuota.create":                   "priorityClassQuota: {create: false}",
	"updateStrategy.type":                         "updateStrategy: {type: OnDelete}",
	"updateStrategy.rollingUpdate.maxSurge":       "updateStrategy: {rollingUpdate: {maxSurge: 2}}",
	"updateStrategy.rollingUpdate.maxUnavailable": "updateStrategy: {rollingUpdate: {maxUnavailable: 1}}",
	"resources.requests.cpu":                      "resources: {requests: {cpu: 1m}}",
	"resources.requests.memory":                   "resources: {requests: {memory: 1Mi}}",
	"resources.limits.memory":                     "resources: {limits: {memory: 1Gi}}",
	"kubelet.root":                                "kubelet: {root: /k}",
	"apiServer.host":                              "apiServer: {host: h}",
	"apiServer.port":                              "apiServer: {port: 1}",
	"logLevel":                                    "logLevel: 5",
	"namespace.create":                            "namespace: {create: true}",
	"extraArgs":                                   "extraArgs: [--x]",
	"extraVolumes":                                "extraVolumes: [{name: x}]",
	"extraVolumeMounts":                           "extraVolumeMounts: [{name: x, mountPath: /x}]",
}

// TestEveryValueIsUsed: a value that changes nothing misleads who sets it.
func TestEveryValueIsUsed(t *testing.T) {
	defaults := defaultValues(t)
	seen := map[string]string{} // by what comes of it
	paths := leaves("", defaults)
	for _, path := range append([]string{""}, paths...) {
		values, known := others[path]
		if path != "" && !known {
			t.Errorf("%s: no other value to try: add one to this test", path)
			continue
		}
		var parsed map[string]any
		if err := yaml.Unmarshal([]byte(values), &parsed); err != nil {
			t.Fatal(err)
		}
		manifests, err := render.Chart(deploy.Namespace, parsed)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if twin, ok := seen[string(bytes.TrimSpace(manifests))]; ok {
			t.Errorf("%s: renders as %q does", path, twin)
		}
		seen[string(bytes.TrimSpace(manifests))] = path
	}
	for path := range others {
		if !slices.Contains(paths, path) {
			t.Errorf("%s: not in values.yaml", path)
		}
	}
}

func defaultValues(t *testing.T) map[string]any {
	t.Helper()
	chart, err := deploy.Chart()
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(chart, "values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var defaults map[string]any
	if err := yaml.Unmarshal(text, &defaults); err != nil {
		t.Fatal(err)
	}
	return defaults
}

// TestEveryValueIsDocumented: the table of deploy/README.md has every value, and
// its default where that is one word.
func TestEveryValueIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "<!-- values: begin -->\n")
	table, _, closed := strings.Cut(rest, "<!-- values: end -->")
	if !found || !closed {
		t.Fatal("README.md has no table of values")
	}
	documented := map[string]string{} // the default, by path
	code := regexp.MustCompile("^`(.*)`$")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 3 {
			continue
		}
		names, words := strings.Split(strings.TrimPrefix(cells[0], "| "), ", "), strings.Split(cells[1], ", ")
		if len(words) != len(names) {
			t.Errorf("%s: %d values, %d defaults", cells[0], len(names), len(words))
			continue
		}
		for i, name := range names {
			documented[strings.Trim(name, "`")] = words[i]
		}
	}
	defaults := defaultValues(t)
	paths := leaves("", defaults)
	for _, path := range paths {
		said, ok := documented[path]
		m := code.FindStringSubmatch(said)
		switch {
		case !ok && !slices.ContainsFunc(slices.Collect(maps.Keys(documented)), func(d string) bool { return strings.HasPrefix(path, d+".") }):
			t.Errorf("%s: not in the table", path)
		case m != nil:
			var want any
			if err := yaml.Unmarshal([]byte(m[1]), &want); err != nil {
				t.Fatal(err)
			}
			if got := valueAt(defaults, path); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: is %v, the table says %s", path, got, m[1])
			}
		}
	}
	for path := range documented {
		if !slices.ContainsFunc(paths, func(p string) bool { return p == path || strings.HasPrefix(p, path+".") }) {
			t.Errorf("%s: in the table, not in values.yaml", path)
		}
	}
}

// valueAt is what values have at a path.
func valueAt(values map[string]any, path string) any {
	name, below, deeper := strings.Cut(path, ".")
	if !deeper {
		return values[name]
	}
	return valueAt(values[name].(map[string]any), below)
}

// leaves are the paths of everything that is no object, or an empty one.
func leaves(prefix string, values map[string]any) []string {
	var paths []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if below, ok := values[key].(map[string]any); ok && len(below) > 0 && key != "nodeSelector" {
			paths = append(paths, leaves(prefix+key+".", below)...)
			continue
		}
		paths = append(paths, prefix+key)
	}
	return paths
}
