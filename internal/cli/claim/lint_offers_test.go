// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/internal/explain/explaintest"
)

// requireLines compares the findings of a manifest with those that are wanted, each of
// which is part of one.
func requireLines(t *testing.T, manifest string, want []string, args ...string) {
	t.Helper()
	out, _ := run(t, manifest, append([]string{"lint"}, args...)...)
	found := strings.Count(out, ": error: ") + strings.Count(out, ": warning: ")
	for _, line := range want {
		if !strings.Contains(out, line) {
			t.Errorf("lint says\n%swant %s", out, line)
		}
	}
	if found != len(want) {
		t.Errorf("lint says\n%swant %d findings", out, len(want))
	}
}

// What is wrong with a pool of addresses is told with the field, the value and what would be
// right.
func TestLintOfAddressPools(t *testing.T) {
	const pool = "apiVersion: plumbline.dev/v1alpha1\nkind: NetworkAddressPool\nmetadata: {name: %s}\nspec: %s\n---\n"
	for name, tt := range map[string]struct {
		specs []string
		want  []string
	}{
		"as it should be": {[]string{"{subnets: [{cidr: 10.1.0.0/16, blockSize: 24, gateway: 10.1.0.1}, {cidr: 'fd00::/64', blockSize: 80}], routes: [{destination: 10.0.0.0/8}]}", "{subnets: [{cidr: 10.2.0.0/16, blockSize: 24}]}"}, nil},
		"overlap": {[]string{"{subnets: [{cidr: 10.1.0.0/16, blockSize: 24}]}", "{subnets: [{cidr: 10.1.128.0/17, blockSize: 24}]}"}, []string{
			`NetworkAddressPool b: error: spec.subnets[0].cidr: Invalid value: "10.1.128.0/17": shares addresses with 10.1.0.0/16 of pool a: want pools that are apart`}},
		"no subnet":        {[]string{"{subnets: [{cidr: ten, blockSize: 24}]}"}, []string{`spec.subnets[0].cidr: Invalid value: "ten": want a subnet such as 192.168.111.0/24`}},
		"host bits":        {[]string{"{subnets: [{cidr: 10.1.0.1/16, blockSize: 24}]}"}, []string{"spec.subnets[0].cidr: Invalid value: 10.1.0.1/16: want the subnet's first address"}},
		"blocks too large": {[]string{"{subnets: [{cidr: 10.1.0.0/16, blockSize: 8}]}"}, []string{"spec.subnets[0].blockSize: Invalid value: 8: want a prefix length of 16-32"}},
		"gateway outside":  {[]string{"{subnets: [{cidr: 10.1.0.0/16, blockSize: 24, gateway: 10.2.0.1}]}"}, []string{"spec.subnets[0].gateway: Invalid value: 10.2.0.1: want an address of 10.1.0.0/16"}},
		"two of a family":  {[]string{"{subnets: [{cidr: 10.1.0.0/16, blockSize: 24}, {cidr: 10.2.0.0/16, blockSize: 24}]}"}, []string{`spec.subnets[1].cidr: Invalid value: "10.2.0.0/16": another subnet is of its family`}},
		"none":             {[]string{"{subnets: []}"}, []string{"spec.subnets: Invalid value: has 0: want one of IPv4"}},
		"no route":         {[]string{"{subnets: [{cidr: 10.1.0.0/16, blockSize: 24}], routes: [{destination: default}]}"}, []string{`spec.routes[0].destination: Invalid value: "default": want a subnet`}},
		"unknown field":    {[]string{"{subnets: [{cidr: 10.1.0.0/16, blocksize: 24, blockSize: 24}]}"}, []string{"spec.subnets[0].blocksize: Forbidden: no such field in plumbline.dev/v1alpha1"}},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := ""
			for i, spec := range tt.specs {
				manifest += fmt.Sprintf(pool, string(rune('a'+i)), spec)
			}
			requireLines(t, manifest, tt.want, "-f", "-")
		})
	}
}

const sharedPolicy = "apiVersion: plumbline.dev/v1alpha1\nkind: HostPolicy\nmetadata: {name: %s}\nspec: %s\n---\n"

// A HostPolicy is refused as the agent would refuse it, and a link is shared in one way.
func TestLintOfHostPolicies(t *testing.T) {
	for name, tt := range map[string]struct {
		specs []string
		want  []string
	}{
		"as it should be":      {[]string{"{links: [{interface: ens2f0, up: true, share: {type: macvlan, slots: 2, bandwidth: 100G}}], modules: [rdma_cm]}"}, nil},
		"the same offer twice": {[]string{"{links: [{interface: a, share: {type: macvlan, slots: 2}}]}", "{links: [{interface: a, share: {type: macvlan, slots: 2}}]}"}, nil},
		"too many slots":       {[]string{"{links: [{interface: ens2f0, share: {type: macvlan, slots: 1025}}]}"}, []string{"HostPolicy a: error: spec.links[0].share.slots: Invalid value: 1025: want 1-1024"}},
		"a flag of a macvlan":  {[]string{"{links: [{interface: b, mtu: 9000}, {interface: ens2f0, share: {type: macvlan, flag: vepa, slots: 1}}]}"}, []string{`spec.links[1].share.flag: Invalid value: "vepa": want one of`}},
		"two finders":          {[]string{"{links: [{interface: a, driver: b, up: true}]}"}, []string{"spec.links[0]: Invalid value: has 2 of pciAddress"}},
		"no bandwidth":         {[]string{"{links: [{interface: a, share: {type: macvlan, slots: 1, bandwidth: fast}}]}"}, []string{`spec.links[0].share.bandwidth: Invalid value: "fast": want bits per second, such as 100G`}},
		"two kinds in one policy": {[]string{"{links: [{interface: a, share: {type: macvlan, slots: 1}}, {interface: a, share: {type: ipvlan, slots: 1}}]}"}, []string{
			"spec.links[1].share: Invalid value: interface a is shared in another way by links[0] of HostPolicy a, as macvlan"}},
		"two kinds in two policies": {[]string{"{links: [{interface: a, share: {type: macvlan, slots: 1}}]}", "{nodeSelector: {matchLabels: {rack: b}}, links: [{interface: a, share: {type: ipvlan, slots: 1}}]}"}, []string{
			"HostPolicy b: error: spec.links[0].share: Invalid value: interface a is shared in another way by links[0] of HostPolicy a, as macvlan"}},
		"perhaps on no node together": {[]string{"{nodeSelector: {matchLabels: {rack: a}}, links: [{interface: a, share: {type: macvlan, slots: 1}}]}", "{nodeSelector: {matchLabels: {rack: b}}, links: [{interface: a, share: {type: ipvlan, slots: 1}}]}"}, []string{
			"HostPolicy b: warning: spec.links[0].share: interface a is shared in another way"}},
		"two expressions": {[]string{"{links: [{selector: {cel: 'device.driver == \"dra.net\"'}, share: {type: macvlan, slots: 1}}, {selector: {cel: 'true'}, share: {type: ipvlan, slots: 1}}]}"}, nil},
		"one expression": {[]string{"{links: [{selector: {cel: 'true'}, share: {type: macvlan, slots: 1}}, {selector: {cel: 'true'}, share: {type: ipvlan, slots: 1}}]}"}, []string{
			"spec.links[1].share: Invalid value: selector true is shared in another way by links[0]"}},
		"an expression that is none": {[]string{"{links: [{selector: {cel: 'device.driver =='}, up: true}]}"}, []string{"HostPolicy a: error: spec.links[0].selector.cel: Invalid value"}},
		"an attribute that links may lack": {[]string{"{links: [{selector: {cel: 'device.attributes[\"dra.net\"].rdmaDevice == \"mlx5_0\"'}, up: true}]}"}, []string{
			`HostPolicy a: warning: spec.links[0].selector.cel: dra.net/rdmaDevice is read also of links that may lack it, of which the policy then cannot tell whether it means them: want "rdmaDevice" in device.attributes["dra.net"] && before it`}},
		"one that is asked for": {[]string{"{links: [{selector: {cel: '\"rdmaDevice\" in device.attributes[\"dra.net\"] && device.attributes[\"dra.net\"].rdmaDevice == \"mlx5_0\"'}, up: true}]}"}, nil},
		"one that nobody publishes": {[]string{"{links: [{selector: {cel: '\"rdmaDevise\" in device.attributes[\"dra.net\"]'}, up: true}]}"}, []string{
			`HostPolicy a: warning: spec.links[0].selector.cel: dra.net/rdmaDevise: plumbline's drivers do not publish this attribute: did you mean dra.net/rdmaDevice?`}},
		"links that are shared": {[]string{"{links: [{selector: {cel: '!(\"shared\" in device.attributes[\"dra.net\"])'}, share: {type: macvlan, slots: 1}}]}"}, []string{
			`HostPolicy a: warning: spec.links[0].selector.cel: dra.net/shared: a link is seen here as it is published while nobody shares it: leave it out`}},
		"another driver's devices": {[]string{"{links: [{selector: {cel: 'device.driver == \"gpu.nvidia.com\"'}, up: true}]}"}, []string{
			"finds no link: links are of driver dra.net, not of gpu.nvidia.com"}},
		"no selector": {[]string{"{nodeSelector: {matchExpressions: [{key: x, operator: Is}]}, links: [{interface: a, up: true}]}"}, []string{"spec.nodeSelector: Invalid value"}},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := ""
			for i, spec := range tt.specs {
				manifest += fmt.Sprintf(sharedPolicy, string(rune('a'+i)), spec)
			}
			requireLines(t, manifest, tt.want, "-f", "-")
		})
	}
	const pool = "apiVersion: plumbline.dev/v1alpha1\nkind: NetworkAddressPool\nmetadata: {name: fabric}\nspec: {subnets: [{cidr: 10.1.0.0/16, blockSize: 24}]}\n---\n"
	requireLines(t, pool+fmt.Sprintf(sharedPolicy, "a", "{links: [{interface: a, share: {type: macvlan, slots: 1, ipam: {pool: fabrik}}}]}"), []string{
		"HostPolicy a: warning: spec.links[0].share.ipam.pool: fabrik: no NetworkAddressPool of the name is among the files: want one of fabric"}, "-f", "-")
}

// A claim for all NICs that chooses one both whole and in shares never fits.
func TestLintOfAllNICsWithTwins(t *testing.T) {
	const (
		class = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: %s}\nspec: {selectors: [{cel: {expression: '%s'}}]}\n---\n"
		claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec: {devices: {requests: [{name: nic, exactly: {deviceClassName: %s, allocationMode: %s}}]}}\n---\n"
		both  = "where a HostPolicy shares NICs, the class chooses those too"
		never = `ResourceClaim c: warning: spec.devices.requests[0].exactly.allocationMode: HostPolicy p offers a NIC whole and in shares, and a claim for both never fits: want !("shared" in device.attributes["dra.net"]) in a selector`
	)
	offer := func(share string) string {
		return fmt.Sprintf(sharedPolicy, "p", "{links: [{interface: a, share: {type: macvlan, slots: 2"+share+"}}]}")
	}
	nics := fmt.Sprintf(class, "nics", `device.driver == "dra.net"`)
	whole := fmt.Sprintf(class, "whole", `device.driver == "dra.net" && !("shared" in device.attributes["dra.net"])`)
	for name, tt := range map[string]struct {
		manifest string
		want     []string
	}{
		"all of both":            {offer(", alsoExclusive: true") + nics + fmt.Sprintf(claim, "nics", "All"), []string{both, never}},
		"one of both":            {offer(", alsoExclusive: true") + nics + fmt.Sprintf(claim, "nics", "ExactCount"), []string{both}},
		"all in shares":          {offer("") + nics + fmt.Sprintf(claim, "nics", "All"), []string{both}},
		"all whole":              {offer(", alsoExclusive: true") + whole + fmt.Sprintf(claim, "whole", "All"), nil},
		"all of a shipped class": {offer(", alsoExclusive: true") + fmt.Sprintf(claim, "dra.net", "All"), nil},
	} {
		t.Run(name, func(t *testing.T) { requireLines(t, tt.manifest, tt.want, "-f", "-") })
	}
}

// A claim is held to what the files say of NICs that are shared and of pools.
func TestLintOfSharesAgainstOffers(t *testing.T) {
	const (
		claim  = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec: {devices: {requests: [{name: nic, exactly: {deviceClassName: shared.dra.net%s}}], config: [{requests: [nic], opaque: {driver: dra.net, parameters: {interface: {%s}}}}]}}\n---\n"
		at     = "ResourceClaim c: warning: spec.devices.config[0].opaque.parameters.interface."
		nobody = ": no NIC that the files share can give it: "
	)
	offers := fmt.Sprintf(sharedPolicy, "p", "{links: [{interface: a, mtu: 1500, share: {type: macvlan, slots: 2, bandwidth: 100G}}, {interface: b, share: {type: vlan, vlanIDs: {first: 100, last: 199}, slots: 1}}, {interface: c, share: {type: ipvlan, mode: l3, slots: 1}}]}") +
		"apiVersion: plumbline.dev/v1alpha1\nkind: NetworkAddressPool\nmetadata: {name: fabric}\nspec: {subnets: [{cidr: 10.1.0.0/16, blockSize: 24}]}\n---\n"
	for name, tt := range map[string]struct{ capacity, parameters, want string }{
		"anything":       {"", "name: net1, ipam: {pool: fabric}", ""},
		"a tag":          {"", "type: vlan, vlanID: 100", ""},
		"another tag":    {"", "type: vlan, vlanID: 200", at + "vlanID: 200" + nobody + "100-199 by HostPolicy p"},
		"a mode":         {"", "type: macvlan, mode: private", ""},
		"another mode":   {"", "type: ipvlan, mode: l2", at + "mode: l2" + nobody + "ipvlan l3 by HostPolicy p"},
		"an MTU":         {"", "type: macvlan, mtu: 9000", at + "mtu: 9000" + nobody + "1500 at most by HostPolicy p"},
		"slots":          {", capacity: {requests: {dra.net/slots: 3}}", "name: net1", "spec.devices.requests[0].exactly.capacity.requests[dra.net/slots]: 3" + nobody + "1 by HostPolicy p, 2 by HostPolicy p"},
		"some bandwidth": {", capacity: {requests: {dra.net/bandwidth: 100G}}", "name: net1", ""},
		"more bandwidth": {", capacity: {requests: {dra.net/bandwidth: 101G}}", "name: net1", "requests[dra.net/bandwidth]: 101000000000" + nobody},
		"another pool":   {"", "ipam: {pool: fabrik}", at + "ipam.pool: fabrik: no NetworkAddressPool of the name is among the files: want one of fabric"},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			if tt.want != "" {
				want = []string{tt.want}
			}
			requireLines(t, offers+fmt.Sprintf(claim, tt.capacity, tt.parameters), want, "-f", "-")
			requireLines(t, fmt.Sprintf(claim, tt.capacity, tt.parameters), nil, "-f", "-") // nothing is known
		})
	}
}

// Two claims of a pod do not call their interfaces by one name.
func TestLintOfNamesInOnePod(t *testing.T) {
	const template = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: %s}\nspec: {spec: {devices: {requests: [{name: nic, exactly: {deviceClassName: shared.dra.net}}], config: [{opaque: {driver: dra.net, parameters: {interface: {name: %s}}}}]}}}\n---\n"
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}], resourceClaims: [{name: first, resourceClaimTemplateName: a}, {name: second, resourceClaimTemplateName: b}]}\n"
	requireLines(t, fmt.Sprintf(template, "a", "net1")+fmt.Sprintf(template, "b", "net2")+pod, nil, "-f", "-")
	requireLines(t, fmt.Sprintf(template, "a", "net1")+fmt.Sprintf(template, "b", "net1")+pod, []string{
		`Pod p: error: spec.resourceClaims[1]: Duplicate value: "net1": claims first and second both call an interface of the pod so: want another interface.name in one of them`}, "-f", "-")
}

// Of a cluster all pools are known; where it has no such objects, none is.
func TestLintAsksTheClusterForPools(t *testing.T) {
	of := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: kind}
	}
	claim := &resourceapi.ResourceClaim{TypeMeta: of("ResourceClaim"), ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{explaintest.Request("nic", "shared.dra.net", 1)}
	claim.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: "dra.net", Parameters: runtime.RawExtension{Raw: []byte(`{"interface": {"ipam": {"pool": "fabric"}}}`)},
	}}}}
	class := explaintest.ShippedClasses(t)["shared.dra.net"]
	class.TypeMeta = of("DeviceClass")
	lists := map[string]any{
		"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c": claim,
		"/apis/resource.k8s.io/v1/deviceclasses/shared.dra.net":        class,
		"/apis/resource.k8s.io/v1/resourceslices":                      &resourceapi.ResourceSliceList{TypeMeta: of("ResourceSliceList")},
	}
	args := []string{"claim/c", "-n", "default", "--kubeconfig"}
	requireLines(t, "", nil, append(args, serve(t, lists))...)
	pools := &nets.NetworkAddressPoolList{TypeMeta: metav1.TypeMeta{APIVersion: nets.GroupVersion.String(), Kind: "NetworkAddressPoolList"}}
	pools.Items = []nets.NetworkAddressPool{{ObjectMeta: metav1.ObjectMeta{Name: "storage"}}}
	lists["/apis/plumbline.dev/v1alpha1/networkaddresspools"] = pools
	requireLines(t, "", []string{`error: spec.devices.config[0].opaque.parameters.interface.ipam.pool: Not found: "fabric": want one of storage`}, append(args, serve(t, lists))...)
	pools.Items[0].Name = "fabric"
	requireLines(t, "", nil, append(args, serve(t, lists))...)
}
