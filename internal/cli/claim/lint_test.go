// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plumbline.dev/plumbline/internal/cli/claim/policy"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev"
)

// nicClaim is a claim of one NIC for each text of parameters.
func nicClaim(t *testing.T, parameters ...string) string {
	t.Helper()
	var requests, configs []string
	for i, text := range parameters {
		if !json.Valid([]byte(text)) {
			t.Fatalf("%s is no JSON", text)
		}
		requests = append(requests, fmt.Sprintf(`{name: nic-%d, exactly: {deviceClassName: dra.net}}`, i))
		configs = append(configs, fmt.Sprintf(`{requests: [nic-%d], opaque: {driver: dra.net, parameters: %s}}`, i, text))
	}
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a, namespace: training}
spec: {devices: {requests: [%s], config: [%s]}}
`, strings.Join(requests, ", "), strings.Join(configs, ", "))
}

// Whatever the driver says of parameters alone lint says, and lint has no error
// where the driver has none.
func TestLintTellsTheDriversVerdict(t *testing.T) {
	for name, parameters := range map[string][]string{
		"nothing":                  {`{}`, `{}`},
		"all right":                {`{"interface": {"name": "net1", "mtu": 9000}, "sysctls": {"net.ipv4.conf.net1.rp_filter": "2"}}`, `{"interface": {"name": "net2"}}`},
		"type":                     {`{"interface": {"type": "ipvlan"}}`},
		"ipam":                     {`{"interface": {"ipam": {"pool": "fabric"}}}`},
		"type and ipam":            {`{"interface": {"type": "macvlan", "ipam": {"pool": "fabric"}}}`},
		"sysctl of the node":       {`{"sysctls": {"net.core.rmem_max": "1"}}`},
		"sysctl of another's NIC":  {`{"interface": {"name": "net1"}, "sysctls": {"net.ipv4.conf.net2.rp_filter": "1"}}`},
		"sysctls that differ":      {`{"sysctls": {"net.ipv4.tcp_ecn": "1"}}`, `{"sysctls": {"net.ipv4.tcp_ecn": "2"}}`},
		"names":                    {`{"interface": {"name": "net1"}}`, `{"interface": {"name": "net1"}}`},
		"the cluster's name":       {`{"interface": {"name": "eth0"}}`},
		"MAC addresses":            {`{"interface": {"hardwareAddr": "02:00:00:00:00:01"}}`, `{"interface": {"hardwareAddr": "02:00:00:00:00:01"}}`},
		"tables of VRFs":           {`{"interface": {"vrf": {"name": "v", "table": 7}}}`, `{"interface": {"vrf": {"name": "w", "table": 7}}}`},
		"routes":                   {`{"routes": [{"destination": "10.0.0.0/8", "scope": 253}]}`, `{"routes": [{"destination": "10.0.0.0/8", "scope": 253}]}`},
		"a value":                  {`{"interface": {"mtu": 1}}`},
		"a VLAN":                   {`{"interface": {"vf": {"vlan": 4095}}}`},
		"the host's folders":       {`{"container": {"mounts": [{"hostPath": "/opt/a", "containerPath": "/opt/a"}]}}`, `{}`},
		"nothing of the host's":    {`{"container": {}}`},
		"fields beside each other": {`{"interface": {"dhcp": true, "addresses": ["10.0.0.1/24"]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var devices []driver.Allocation
			for i, text := range parameters {
				devices = append(devices, driver.Allocation{Request: fmt.Sprintf("nic-%d", i), Configs: []driver.Config{{Source: "claim", Raw: []byte(text)}}})
			}
			out, _ := run(t, nicClaim(t, parameters...), "lint", "-f", "-")
			refused := false
			for _, err := range netdev.CheckParameters(devices) {
				if err == nil {
					continue
				}
				refused = true
				sentence := strings.Trim(strings.TrimPrefix(err.Error(), "parameters: "), "[]")
				for _, one := range strings.Split(sentence, ", interface.") {
					// The field has its place in the claim before it, and in one case
					// the kind of mistake after it.
					_, why, _ := strings.Cut(one, ": ")
					if !strings.Contains(out, ": error: ") || !strings.Contains(out, why) {
						t.Errorf("the driver says %s\nlint says %s", one, out)
					}
				}
			}
			if errs := strings.Count(out, ": error: "); (errs > 0) != refused {
				t.Errorf("the driver refuses it: %v; lint says %s", refused, out)
			}
		})
	}
}

// Who gets the NIC and who a link on it is told where a class or a claim leaves it open.
func TestLintOfSharedNICs(t *testing.T) {
	const objects = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: fast}
spec:
  selectors: [{cel: {expression: '%s'}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests: [{name: nic, exactly: {deviceClassName: fast}}]
    config: [{requests: [nic], opaque: {driver: dra.net, parameters: {interface: {type: %s}}}}]
`
	const (
		open  = `device.driver == "dra.net"`
		whole = `device.driver == "dra.net" && !("shared" in device.attributes["dra.net"])`
		note  = "DeviceClass fast: warning: spec.selectors: where a HostPolicy shares NICs, the class chooses those too"
		kind  = `warning: spec.devices.config[0].opaque.parameters.interface.type: macvlan: is of NICs that are shared, and class fast chooses whole ones: want class shared.dra.net`
	)
	for _, tt := range []struct {
		selector, kind string
		want           []string
	}{
		{open, "passthrough", []string{note}},
		{open, "macvlan", []string{note, kind}},
		{whole, "passthrough", nil},
		{`device.driver == "dra.cpu"`, "passthrough", nil},
	} {
		out, err := run(t, fmt.Sprintf(objects, tt.selector, tt.kind), "lint", "-f", "-")
		for _, line := range []string{note, kind} {
			if got, want := strings.Contains(out, line), slices.Contains(tt.want, line); err != nil || got != want {
				t.Errorf("%s, %s: %v, says %q: %t, want %t\n%s", tt.selector, tt.kind, err, line, got, want, out)
			}
		}
	}
}

// What containers get of the host is a class's to say, and an error where it is wrong there,
// which no claim can set right.
func TestLintOfHostParts(t *testing.T) {
	const class = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gib}
spec:
  selectors: [{cel: {expression: 'device.driver == "dra.net" && !("shared" in device.attributes["dra.net"])'}}]
  config: [{opaque: {driver: dra.net, parameters: {container: %s}}}]
---
apiVersion: resource.k8s.io/v1
kind: %s
metadata: {name: a}
spec: %s
`
	const requests = `devices: {requests: [{name: nic, exactly: {deviceClassName: gib}}]%s}`
	const config = `, config: [{opaque: {driver: dra.net, parameters: {container: %s}}}]`
	const gib = `{mounts: [{hostPath: /home/kubernetes/bin/gib, containerPath: /usr/local/gib}], env: {A: b}}`
	const refused = "spec.devices.config[0].opaque.parameters.container: Forbidden: gives containers what is the host's, which no claim may: want it in the parameters of a DeviceClass, by an administrator\n"
	for _, test := range []struct {
		class, kind, claim string
		want               []string
	}{
		{gib, "ResourceClaim", "", nil},
		{`{mounts: [{hostPath: opt, containerPath: /dev}]}`, "ResourceClaim", "", []string{
			"DeviceClass gib: error: spec.config[0].opaque.parameters.container.mounts[0].hostPath: Invalid value: \"opt\": want an absolute path",
			"DeviceClass gib: error: spec.config[0].opaque.parameters.container.mounts[0].containerPath: Invalid value: \"/dev\": is at, above or below /dev",
		}},
		{gib, "ResourceClaim", fmt.Sprintf(config, gib), []string{"ResourceClaim a: error: " + refused}},
		{gib, "ResourceClaim", fmt.Sprintf(config, "{mounts: []}"), []string{"ResourceClaim a: error: " + refused}},
		{gib, "ResourceClaimTemplate", fmt.Sprintf(config, "{env: {A: c}}"), []string{"ResourceClaimTemplate a: error: spec." + refused}},
	} {
		spec := fmt.Sprintf("{"+requests+"}", test.claim)
		if test.kind == "ResourceClaimTemplate" {
			spec = "{spec: " + spec + "}"
		}
		objects := fmt.Sprintf(class, test.class, test.kind, spec)
		out, err := run(t, objects, "lint", "-f", "-")
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("class %s, claim %s: %s\nwant %s", test.class, test.claim, out, want)
			}
		}
		if test.want == nil {
			if want := "2 objects checked: 0 errors, 0 warnings\n"; err != nil || out != want {
				t.Errorf("class %s: %v %s, want %s", test.class, err, out, want)
			}
		}
		// render refuses what the driver does.
		out, err = run(t, objects, "render", "-f", "-")
		const sentence = "  refused: container: Forbidden: gives containers what is the host's"
		if got, want := strings.Contains(out, sentence), test.claim != ""; got != want || (err != nil) != (test.want != nil) {
			t.Errorf("class %s, claim %s: render refuses the claim: %t, want %t; %v\n%s", test.class, test.claim, got, want, err, out)
		}
		if want := "  container.env[A]                   b                         class gib\n"; test.claim == "" && test.want == nil && !strings.Contains(out, want) {
			t.Errorf("render says %s, want %s", out, want)
		}
	}
}

// An annotation of Multus gives nothing where NICs are claimed.
func TestLintOfSecondaryNetworks(t *testing.T) {
	const pod = `
apiVersion: %s
kind: %s
metadata: {name: p}
spec:
  template:
    metadata: {annotations: {k8s.v1.cni.cncf.io/networks: rdma-net}}
    spec: {containers: [{name: c, image: i, resources: {limits: {rdma/hca_shared_devices_a: 1}}}]}
`
	out, err := run(t, fmt.Sprintf(pod, "apps/v1", "Deployment"), "lint", "-f", "-")
	if want := "Deployment p: warning: spec.template.metadata.annotations[k8s.v1.cni.cncf.io/networks]: is read by Multus, and by nobody where NICs are claimed: want a claim of class shared.dra.net"; err != nil || !strings.Contains(out, want) {
		t.Errorf("%v %s, want %s", err, out, want)
	}
}

// What the claim policy guards is told, with the setting's name; a class's
// parameters it does not look at.
func TestLintNotesWhatThePolicyGuards(t *testing.T) {
	for name, parameters := range map[string]string{
		"addresses":           `{"interface": {"addresses": ["10.0.0.2/24"]}}`,
		"hardwareAddr":        `{"interface": {"hardwareAddr": "02:00:00:00:00:01"}}`,
		"defaultRoutes":       `{"routes": [{"destination": "0.0.0.0/0", "scope": 253}]}`,
		"rules":               `{"rules": [{"table": 7}]}`,
		"disableEbpfPrograms": `{"interface": {"disableEbpfPrograms": true}}`,
		"privateFlags":        `{"ethtool": {"privateFlags": {"a": false}}}`,
		"sysctls":             `{"sysctls": {"net.ipv4.tcp_ecn": "1"}}`,
		"vf":                  `{"interface": {"vf": {"trust": true}}}`,
		"umad":                `{"rdma": {"umad": true}}`,
		"":                    `{"interface": {"mtu": 9000, "disableEbpfPrograms": false, "vf": {"vlan": null}}, "sysctls": {}}`,
	} {
		out, err := run(t, nicClaim(t, parameters), "lint", "-f", "-")
		if err != nil {
			t.Errorf("%s: %v\n%s", parameters, err, out)
		}
		if name == "" {
			if want := "1 object checked: 0 errors, 0 warnings\n"; out != want {
				t.Errorf("%s: %s, want %s", parameters, out, want)
			}
			continue
		}
		for _, want := range []string{
			"ResourceClaim training/a: note: spec.devices.config[0].opaque.parameters.",
			"the shipped policy " + policy.Policy + " warns of claims that ", "(setting " + name + ")",
			"kubectl label namespace training allow.plumbline.dev/" + name + "=true allows it",
			"1 object checked: 0 errors, 0 warnings, 1 note\n",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %s\nwant %s", parameters, out, want)
			}
		}
	}
	const class = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: bare}
spec:
  selectors: [{cel: {expression: device.driver == "dra.net"}}]
  config: [{opaque: {driver: dra.net, parameters: {interface: {disableEbpfPrograms: true}}}}]
`
	if out, err := run(t, class, "lint", "-f", "-"); err != nil || strings.Contains(out, "the shipped policy") {
		t.Errorf("%v %s", err, out)
	}
}

// requestOf is a claim of one request.
func requestOf(class, fields, rest string) string {
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a}
spec:
  devices:
    requests: [{name: r, exactly: {deviceClassName: %s%s}}]
    %s
`, class, fields, rest)
}

func selecting(expression string) string {
	return fmt.Sprintf(", selectors: [{cel: {expression: %q}}]", expression)
}

func TestLintWarnings(t *testing.T) {
	const (
		gpus     = "gpu.nvidia.com"
		unguided = " is read also of devices that may lack it"
		whole    = "without it the request takes all CPUs of a device"
	)
	slice := func(device string) string {
		return fmt.Sprintf(`
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: cpus}
spec: {driver: dra.cpu, nodeName: node-1, pool: {name: node-1, generation: 1, resourceSliceCount: 1}, devices: [%s]}
`, device)
	}
	const single, group = `{name: cpudev000}`, `{name: cpudevnuma000, allowMultipleAllocations: true, capacity: {dra.cpu/cpu: {value: "8"}}}`
	for name, c := range map[string]struct {
		manifest string
		// want is part of the only warning; empty where there is none.
		want string
	}{
		"a GPU's address":               {requestOf(gpus, selecting(`device.attributes["resource.kubernetes.io"].pciBusID == "0000:04:00.0"`), ""), ""},
		"a GPU's type":                  {requestOf(gpus, selecting(`device.attributes["gpu.nvidia.com"].type == "gpu"`), ""), ""},
		"a GPU's product":               {requestOf(gpus, selecting(`device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA")`), ""), ""},
		"a GPU's product of its own":    {requestOf("somebody-elses", selecting(`device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].productName == "x"`), ""), ""},
		"a GPU's node":                  {requestOf(gpus, selecting(`device.attributes["resource.kubernetes.io"].numaNode == 0`), ""), "resource.kubernetes.io/numaNode" + unguided},
		"a GPU's root":                  {requestOf(gpus, selecting(`device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"`), ""), "resource.kubernetes.io/pcieRoot" + unguided},
		"a GPU's UUID":                  {requestOf(gpus, selecting(`device.attributes["gpu.nvidia.com"].uuid == "x"`), ""), "gpu.nvidia.com/uuid" + unguided},
		"a NIC's address":               {requestOf("dra.net", selecting(`device.attributes["resource.kubernetes.io"].pciBusID == "0000:04:00.0"`), ""), "resource.kubernetes.io/pciBusID" + unguided},
		"a NIC's RDMA":                  {requestOf("dra.net", selecting(`device.attributes["dra.net"].rdma`), ""), ""},
		"a webhook's attribute":         {requestOf("dra.net", selecting(`"rack" in device.attributes["dra.net"] && device.attributes["dra.net"].rack == "r1"`), ""), ""},
		"a webhook's domain":            {requestOf("dra.net", selecting(`"rack" in device.attributes["fabric.example.com"] && device.attributes["fabric.example.com"].rack == "r1"`), ""), ""},
		"a webhook's constraint":        {requestOf("dra.net", "", "constraints: [{matchAttribute: dra.net/rack}]"), ""},
		"a misspelt attribute":          {requestOf("dra.net", "", "constraints: [{matchAttribute: dra.net/numaNod}]"), "plumbline's drivers do not publish this attribute: did you mean dra.net/numaNode?"},
		"a misspelt standard attribute": {requestOf("dra.net", "", "constraints: [{matchAttribute: resource.kubernetes.io/numaNod}]"), "no driver publishes this attribute: did you mean resource.kubernetes.io/numaNode?"},
		"an attribute of no CPU":        {requestOf("dra.cpu", ", capacity: {requests: {dra.cpu/cpu: 1}}", "constraints: [{distinctAttribute: dra.cpu/rack}]"), "no driver publishes this attribute: dra.cpu has "},
		"CPUs":                          {requestOf("dra.cpu", "", ""), whole},
		"several groups":                {requestOf("dra.cpu", ", count: 2", ""), whole},
		"single CPUs by selector":       {requestOf("dra.cpu", ", count: 8"+selecting(`"coreType" in device.attributes["dra.cpu"] && device.attributes["dra.cpu"].coreType == "p-core"`), ""), ""},
		"single CPUs by constraint":     {requestOf("dra.cpu", ", count: 8", "constraints: [{distinctAttribute: dra.cpu/coreID}]"), ""},
		"single CPUs by slices":         {requestOf("dra.cpu", ", count: 8", "") + slice(single), ""},
		"groups by slices":              {requestOf("dra.cpu", ", count: 2", "") + slice(group), whole},
		"both by slices":                {requestOf("dra.cpu", ", count: 2", "") + slice(single+", "+group), whole},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, c.manifest, "lint", "-f", "-")
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			switch got := strings.Count(out, ": warning: "); {
			case c.want == "" && got > 0, c.want != "" && (got != 1 || !strings.Contains(out, c.want)):
				t.Errorf("%s, want %q", out, c.want)
			}
		})
	}
}

// No file of the examples has an error, and what is warned of is what fails the
// allocation on a NIC that lacks the attribute.
func TestLintOfAllExamples(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*/manifests/*.yaml")
	if err != nil || len(files) < 15 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		out, err := run(t, "", "lint", "-f", file)
		if err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
		for line := range strings.Lines(out) {
			if strings.Contains(line, ": warning: ") && !strings.Contains(line, "dra.net/numaNode is read") &&
				!strings.Contains(line, "dra.net/ifName is read") && !strings.Contains(line, "gce.dra.net/networkName is read") &&
				!strings.Contains(line, "feature gate TimeSlicingSettings") &&
				// The mission's manifests are as they were before NICs could be shared.
				!strings.Contains(line, "where a HostPolicy shares NICs") && !strings.Contains(line, "is read by Multus") {
				t.Errorf("a warning that is none: %s", line)
			}
		}
	}
}
