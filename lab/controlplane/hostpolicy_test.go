// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// tryHostPolicies asks the API server by dry runs what a HostPolicy may say: what no link
// can be is refused when it is written, and not on a thousand nodes.
func tryHostPolicies(t *testing.T, admin *rest.Config) {
	policies := dynamic.NewForConfigOrDie(admin).Resource(schema.GroupVersionResource{Group: "plumbline.dev", Version: "v1alpha1", Resource: "hostpolicies"})
	for spec, refused := range map[string]string{
		"{links: [{driver: mlx5_core, up: true, mtu: 9000}]}":                                                                                         "",
		"{nodeSelector: {matchLabels: {pool: h200}}, dryRun: true, links: [{pciAddress: \"0000:91:00.0\", altName: storage0}]}":                       "",
		"{links: [{rdmaDevice: mlx5_0, sysctls: {ipv4/conf/arp_ignore: \"2\", ipv4/conf/rp_filter: \"0\"}}]}":                                         "",
		"{links: [{interface: ../eth0, up: true}]}":                                                                                                   "spec.links[0].interface",
		"{modules: [nvidia_peermem], sysctls: {net.ipv4.tcp_rmem: \"4096 131072 6291456\", kernel.numa_balancing: \"0\"}, rdmaNamespaces: exclusive}": "",
		"{links: [{driver: mlx5_core, maxReadRequest: 4096, relaxedOrdering: true}]}":                                                                 "",
		"{links: [{driver: mlx5_core, maxReadRequest: 3000}]}":                                                                                        "spec.links[0].maxReadRequest",
		"{modules: [mlx5_core]}":                        "spec.modules[0]",
		"{sysctls: {kernel.core_pattern: \"1\"}}":       "want keys out of kernel.numa_balancing",
		"{sysctls: {net.core.rmem_max: \"1; reboot\"}}": "spec.sysctls.net.core.rmem_max",
		"{rdmaNamespaces: none}":                        "spec.rdmaNamespaces",
		"{dryRun: true}":                                "want at least one of links, modules, sysctls and rdmaNamespaces",
		"{links: []}":                                   "spec.links",
		"{links: [{mtu: 9000}]}":                        "want exactly one of pciAddress, rdmaDevice, interface and driver",
		"{links: [{driver: mlx5_core, rdmaDevice: mlx5_0, mtu: 9000}]}":                  "want exactly one of pciAddress, rdmaDevice, interface and driver",
		"{links: [{driver: mlx5_core}]}":                                                 "want at least one of up, mtu, altName, sysctls, maxReadRequest and relaxedOrdering",
		"{links: [{pciAddress: \"91:00.0\", up: true}]}":                                 "spec.links[0].pciAddress",
		"{links: [{driver: ../etc, up: true}]}":                                          "spec.links[0].driver",
		"{links: [{driver: mlx5_core, mtu: 67}]}":                                        "spec.links[0].mtu",
		"{links: [{driver: mlx5_core, altName: \"a b\"}]}":                               "spec.links[0].altName",
		"{links: [{driver: mlx5_core, sysctls: {ipv4/conf/forwarding: \"1\"}}]}":         "want keys out of ipv4/conf/arp_announce",
		"{links: [{driver: mlx5_core, sysctls: {ipv4/conf/arp_ignore: \"1; reboot\"}}]}": "spec.links[0].sysctls.ipv4/conf/arp_ignore",
		"{links: [{driver: mlx5_core, up: true, vfs: 8}]}":                               "unknown field \"spec.links[0].vfs\"",
	} {
		policy := &unstructured.Unstructured{}
		text := "apiVersion: plumbline.dev/v1alpha1\nkind: HostPolicy\nmetadata: {name: tried}\nspec: " + spec
		if err := yaml.Unmarshal([]byte(text), &policy.Object); err != nil {
			t.Fatal(err)
		}
		strict := dryRun
		strict.FieldValidation = "Strict"
		_, err := policies.Create(t.Context(), policy, strict)
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v, want %q", spec, err, refused)
		}
	}
}
