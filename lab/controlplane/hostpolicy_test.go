// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

var hostPoliciesV1 = schema.GroupVersionResource{Group: "plumbline.dev", Version: "v1alpha1", Resource: "hostpolicies"}

// tryHostPolicies asks the API server by dry runs what a HostPolicy may say: what no link
// can be is refused when it is written, and not on a thousand nodes.
func tryHostPolicies(t *testing.T, admin *rest.Config) {
	policies := dynamic.NewForConfigOrDie(admin).Resource(hostPoliciesV1)
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
		"{links: [{mtu: 9000}]}":                        "want exactly one of pciAddress, rdmaDevice, interface, driver, role and selector",
		"{links: [{driver: mlx5_core, rdmaDevice: mlx5_0, mtu: 9000}]}":                                                                                      "want exactly one of pciAddress, rdmaDevice, interface, driver, role and selector",
		"{links: [{driver: mlx5_core}]}":                                                                                                                     "want at least one of up, mtu, altName, sysctls, maxReadRequest, relaxedOrdering, numVFs and share",
		"{links: [{driver: mlx5_core, numVFs: 8}, {interface: eth2, numVFs: 0}]}":                                                                            "",
		"{links: [{interface: bond0, share: {type: ipvlan, mode: l3s, flag: private, slots: 16, bandwidth: 200G}}]}":                                         "",
		"{links: [{interface: eth2, share: {type: vlan, vlanIDs: {first: 100, last: 199}, slots: 100}}]}":                                                    "",
		"{links: [{selector: {cel: 'device.attributes[\"dra.net\"].rdma'}, share: {type: macvlan, slots: 4, alsoExclusive: true, ipam: {pool: rdma-net}}}]}": "",
		"{links: [{interface: eth2, share: {type: macvlan, slots: 4, ipam: {pool: RDMA}}}]}":                                                                 "spec.links[0].share.ipam.pool",
		"{links: [{interface: eth2, selector: {cel: \"true\"}, mtu: 9000}]}":                                                                                 "want exactly one of pciAddress, rdmaDevice, interface, driver, role and selector",
		"{links: [{selector: {cel: \"\"}, mtu: 9000}]}":                                                                                                      "spec.links[0].selector.cel",
		"{links: [{interface: eth2, share: {type: macvtap, slots: 1}}]}":                                                                                     "spec.links[0].share.type",
		"{links: [{interface: eth2, share: {type: macvlan}}]}":                                                                                               "spec.links[0].share.slots",
		"{links: [{interface: eth2, share: {type: macvlan, slots: 1025}}]}":                                                                                  "spec.links[0].share.slots",
		"{links: [{interface: eth2, share: {type: macvlan, mode: l3, slots: 1}}]}":                                                                           "mode: macvlan has bridge, private and vepa",
		"{links: [{interface: eth2, share: {type: vlan, slots: 1}}]}":                                                                                        "vlanIDs: with type vlan, and with no other",
		"{links: [{interface: eth2, share: {type: vlan, vlanIDs: {first: 9, last: 5}, slots: 1}}]}":                                                          "want first at most last",
		"{links: [{interface: eth2, share: {type: macvlan, flag: private, slots: 1}}]}":                                                                      "flag: only with type ipvlan",
		"{links: [{interface: eth2, share: {type: macvlan, slots: 1, bandwidth: fast}}]}":                                                                    "spec.links[0].share.bandwidth",
		"{links: [{driver: mlx5_core, numVFs: -1}]}":                                                                                                         "spec.links[0].numVFs",
		"{links: [{driver: mlx5_core, numVFs: 65536}]}":                                                                                                      "spec.links[0].numVFs",
		"{links: [{pciAddress: \"91:00.0\", up: true}]}":                                                                                                     "spec.links[0].pciAddress",
		"{links: [{driver: ../etc, up: true}]}":                                                                                                              "spec.links[0].driver",
		"{links: [{driver: mlx5_core, mtu: 67}]}":                                                                                                            "spec.links[0].mtu",
		"{links: [{driver: mlx5_core, altName: \"a b\"}]}":                                                                                                   "spec.links[0].altName",
		"{links: [{driver: mlx5_core, sysctls: {ipv4/conf/forwarding: \"1\"}}]}":                                                                             "want keys out of ipv4/conf/arp_announce",
		"{links: [{driver: mlx5_core, sysctls: {ipv4/conf/arp_ignore: \"1; reboot\"}}]}":                                                                     "spec.links[0].sysctls.ipv4/conf/arp_ignore",
		"{links: [{driver: mlx5_core, up: true, vfs: 8}]}":                                                                                                   "unknown field \"spec.links[0].vfs\"",
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

const hostPoliciesAgree = "plumbline-host-policies-agree"

// tryDisagreeingHostPolicies tries the shipped policy that refuses what contradicts another
// HostPolicy.
func tryDisagreeingHostPolicies(t *testing.T, admin *rest.Config) {
	var cases struct {
		Existing map[string]map[string]any `json:"existing"`
		Cases    []struct {
			Name    string         `json:"name"`
			Spec    map[string]any `json:"spec"`
			Update  string         `json:"update"`
			Refused string         `json:"refused"`
		} `json:"cases"`
	}
	text, err := os.ReadFile("../../deploy/testdata/hostpolicies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &cases); err != nil {
		t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(admin)
	policies := client.Resource(hostPoliciesV1)
	cases.Existing["largest"] = largestHostPolicy(9000)
	for _, name := range slices.Sorted(maps.Keys(cases.Existing)) {
		if _, err := policies.Create(t.Context(), hostPolicy(name, cases.Existing[name]), metav1.CreateOptions{}); err != nil {
			t.Fatalf("those that exist agree, and %s is refused: %v", name, err)
		}
		t.Cleanup(func() {
			if err := policies.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	write := func(ctx context.Context, name string, spec map[string]any) error {
		if name == "" {
			_, err := policies.Create(ctx, hostPolicy("new", spec), dryRun)
			return err
		}
		existing, err := policies.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		existing.Object["spec"] = spec
		_, err = policies.Update(ctx, existing, metav1.UpdateOptions{DryRun: dryRun.DryRun})
		return err
	}
	// The API server looks for definitions of its parameters every half a minute, and
	// hears of each HostPolicy a moment after it was written.
	if err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		for _, tc := range cases.Cases {
			if tc.Refused != "" && write(ctx, tc.Update, tc.Spec) == nil {
				return false, nil
			}
		}
		return true, nil
	}); err != nil {
		t.Errorf("not everything was refused that is to be: %v", err)
	}
	requireTypeChecked(t, client, hostPoliciesAgree)
	for _, tc := range cases.Cases {
		t.Run(tc.Name, func(t *testing.T) {
			err := write(t.Context(), tc.Update, tc.Spec)
			if tc.Refused == "" && err != nil || tc.Refused != "" && (err == nil || !strings.Contains(err.Error(), "denied request: "+tc.Refused)) {
				t.Errorf("%v\nwant %q", err, tc.Refused)
			}
		})
	}
	t.Run("the largest", func(t *testing.T) {
		if err := write(t.Context(), "largest", largestHostPolicy(9000)); err != nil {
			t.Errorf("equal to itself: %v", err)
		}
		// What costs too much would be admitted.
		want := `denied request: spec.links[driver mlx5_core].mtu: HostPolicies new and largest want "1500" and "9000"`
		if err := write(t.Context(), "", largestHostPolicy(1500)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	})
}

// largestHostPolicy has as many links as there may be, each found by the same words and
// shared, of which the last wants an MTU.
func largestHostPolicy(mtu int64) map[string]any {
	var links []any
	for range 63 {
		links = append(links, map[string]any{
			"driver": "mlx5_core", "up": true, "maxReadRequest": int64(4096), "relaxedOrdering": true,
			"sysctls": map[string]any{"ipv4/conf/arp_announce": "2", "ipv4/conf/arp_filter": "0", "ipv4/conf/arp_ignore": "1", "ipv4/conf/arp_notify": "1", "ipv4/conf/rp_filter": "2"},
			"share":   map[string]any{"type": "ipvlan", "mode": "l3", "flag": "private", "slots": int64(16), "bandwidth": "100G", "ipam": map[string]any{"pool": "storage"}},
		})
	}
	links = append(links, map[string]any{"driver": "mlx5_core", "mtu": mtu})
	return map[string]any{"nodeSelector": map[string]any{"matchLabels": map[string]any{"pool": "largest"}}, "links": links}
}

func hostPolicy(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "plumbline.dev/v1alpha1", "kind": "HostPolicy", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}
