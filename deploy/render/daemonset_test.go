// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"plumbline.dev/plumbline/deploy"
)

// TestAgentHoldsNoMoreThanItNeeds is what an auditor would look for.
func TestAgentHoldsNoMoreThanItNeeds(t *testing.T) {
	pod := only[*appsv1.DaemonSet](t, decode(t, deploy.Install())).Spec.Template.Spec
	container := pod.Containers[0]
	if pod.HostPID || pod.HostIPC {
		t.Error("the agent shares the host's processes or IPC")
	}
	if len(container.Ports) != 0 {
		t.Error("the agent opens ports in the host's network")
	}
	if pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Error("the agent runs without the runtime's seccomp profile")
	}
	yes, no, root := true, false, int64(0)
	want := &corev1.SecurityContext{
		Privileged: &no, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, RunAsUser: &root,
		Capabilities: &corev1.Capabilities{
			Drop: []corev1.Capability{"ALL"},
			Add:  []corev1.Capability{"NET_ADMIN", "SYS_ADMIN", "NET_RAW", "SYS_PTRACE"},
		},
	}
	if diff := cmp.Diff(want, container.SecurityContext); diff != "" {
		t.Errorf("security context (-want +got):\n%s", diff)
	}
}

// TestObserverHoldsLess: one capability, no network of the host's, nothing
// mounted writable but its own memory, and no right to write but events.
func TestObserverHoldsLess(t *testing.T) {
	objects := decode(t, deploy.Observe())
	pod := only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec
	container := pod.Containers[0]
	if pod.HostPID || pod.HostIPC || pod.HostNetwork {
		t.Error("the observer shares the host's processes, IPC or network")
	}
	if diff := cmp.Diff([]corev1.Capability{"SYS_PTRACE"}, container.SecurityContext.Capabilities.Add); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
	for _, m := range container.VolumeMounts {
		if !m.ReadOnly && m.Name != "run" {
			t.Errorf("%s is mounted writable", m.MountPath)
		}
	}
	for _, v := range pod.Volumes {
		if v.HostPath != nil && !slices.Contains([]string{"/sys", "/proc", "/var/lib/kubelet/pod-resources"}, v.HostPath.Path) {
			t.Errorf("the host's %s is mounted", v.HostPath.Path)
		}
	}
	for _, rule := range roleNamed(t, objects, "plumbline-observer").Rules {
		for _, verb := range rule.Verbs {
			if !slices.Contains([]string{"get", "list", "watch"}, verb) && !slices.Equal(rule.Resources, []string{"events"}) {
				t.Errorf("the observer may %s %v", verb, rule.Resources)
			}
		}
	}
}

// TestArgumentsAndNodes covers what values do to the DaemonSet.
func TestArgumentsAndNodes(t *testing.T) {
	tests := []struct {
		name   string
		values string
		args   []string
		terms  []string
	}{
		{
			name: "defaults",
			args: []string{"--drivers=dra.cpu,dra.net", "--gpu-mode=external"},
		},
		{
			name:   "one driver on some nodes: the agent decides",
			values: "drivers: {net: {nodeSelector: {pool: rdma, zone: b}}}",
			args:   []string{"--drivers=dra.cpu,dra.net", "--driver-node-selector=dra.net:pool=rdma,zone=b"},
		},
		{
			name:   "every driver on some nodes: nodes that at least one wants",
			values: "drivers: {net: {nodeSelector: {pool: rdma}}, cpu: {nodeSelector: {pinned: 'true'}}}",
			args:   []string{"--driver-node-selector=dra.cpu:pinned=true", "--driver-node-selector=dra.net:pool=rdma"},
			terms:  []string{"pinned In [true]", "pool In [rdma]"},
		},
		{
			name:   "one driver only",
			values: "drivers: {cpu: {enabled: false}, net: {nodeSelector: {pool: rdma}}}",
			args:   []string{"--drivers=dra.net"},
			terms:  []string{"pool In [rdma]"},
		},
		{
			name:   "further conditions join every term",
			values: "{nodeMatchExpressions: [{key: virtual, operator: DoesNotExist}], drivers: {cpu: {enabled: false}, net: {nodeSelector: {pool: rdma}}}}",
			terms:  []string{"virtual DoesNotExist [] and pool In [rdma]"},
		},
		{
			name:   "further conditions alone",
			values: "nodeMatchExpressions: [{key: virtual, operator: DoesNotExist}]",
			terms:  []string{"virtual DoesNotExist []"},
		},
		{
			name:   "simulated GPUs",
			values: "drivers: {gpu: {mode: simulated, machine: a3-ultragpu-8g}}",
			args:   []string{"--drivers=dra.cpu,dra.net,gpu.nvidia.com", "--gpu-mode=simulated", "--machine=a3-ultragpu-8g"},
		},
		{
			name:   "reserved CPUs and another kubelet",
			values: "{drivers: {cpu: {reservedCPUs: 0-1}}, kubelet: {root: /data/kubelet}}",
			args:   []string{"--reserved-cpus=0-1", "--kubelet-root=/data/kubelet"},
		},
		{
			name:   "how CPUs are offered",
			values: "drivers: {cpu: {groupBy: socket, reservedPerNUMA: 2, exposePCIeRoots: true}}",
			args:   []string{"--cpu-device-mode=grouped", "--group-by=socket", "--reserved-per-numa=2", "--expose-pcie-roots"},
		},
		{
			name: "where the container finds the host's parts",
			args: []string{"--proc-sys=/host/proc/sys", "--bpffs=/sys/fs/bpf", "--socket=/run/plumbline/agent.sock", "--state-dir=/var/lib/plumbline"},
		},
		{
			name: "how pods are verified",
			args: []string{"--verify-interval=10s", "--proc-root=/host/procfs"},
		},
		{
			name:   "no eBPF, and losses allowed",
			values: "drivers: {net: {ebpf: false, allowLoss: true, allowPhysicalFunctions: true}}",
			args:   []string{"--bpffs=", "--allow-loss", "--allow-physical-functions"},
		},
		{
			name:   "which NICs are offered",
			values: `drivers: {net: {allowInterfaces: ["nic*", "kind:macvlan"], filter: '"dra.net/rdma" in attributes && attributes["dra.net/rdma"].BoolValue', moveIBInterfaces: false}}`,
			args: []string{
				"--allow-interfaces=nic*", "--allow-interfaces=kind:macvlan", "--move-ib-interfaces=false",
				`--filter="dra.net/rdma" in attributes && attributes["dra.net/rdma"].BoolValue`,
			},
		},
		{
			name:   "a topology file of NCCL",
			values: "drivers: {net: {ncclTopologyFile: /opt/microsoft/ndv5/topo.xml}}",
			args:   []string{"--nccl-topology-file=/host/nccl/topo.xml"},
		},
		{
			name:   "NICs by the root of their Data Direct functions",
			values: "drivers: {net: {dataDirectAsRoot: true}}",
			args:   []string{"--data-direct-as-root"},
		},
		{
			name:   "faults that evict",
			values: "deviceTaints: NoExecute",
			args:   []string{"--device-taints=NoExecute"},
		},
		{
			name:   "containers that are told nothing",
			values: "deviceMetadata: {enabled: false}",
			args:   []string{"--device-metadata=false"},
		},
		{
			name:   "host checks that taint nothing",
			values: "hostReport: {deviceTaints: false}",
			args:   []string{"--host-report-interval=1m", "--host-taints=false"},
		},
		{
			name:   "a listener for everybody",
			values: "http: {bindAddress: '[::1]:9177'}",
			args:   []string{"--bind-address=[::1]:9177"},
		},
		{
			name:   "metrics, and a certificate for them",
			values: "metrics: {enabled: true, tlsSecret: plumbline-metrics}",
			args:   []string{"--metrics-address=:9178", "--metrics-cert-dir=/etc/plumbline/metrics"},
		},
		{
			name:   "a cloud, and a webhook",
			values: "cloud: {provider: webhook, profileProvider: webhook, webhookURL: 'https://w:1', metadataEndpoint: 'm:2'}",
			args:   []string{"--cloud-provider=webhook", "--profile-provider=webhook", "--webhook-url=https://w:1", "--metadata-endpoint=m:2"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			pod := only[*appsv1.DaemonSet](t, rendered(t, tc.values)).Spec.Template.Spec
			all := "\n" + strings.Join(pod.Containers[0].Args, "\n") + "\n"
			for _, arg := range tc.args {
				if !strings.Contains(all, "\n"+arg+"\n") {
					t.Errorf("no argument %s in:%s", arg, all)
				}
			}
			if diff := cmp.Diff(tc.terms, terms(pod.Affinity)); diff != "" {
				t.Errorf("node affinity (-want +got):\n%s", diff)
			}
		})
	}
}

// terms writes required node affinity in one line a term.
func terms(affinity *corev1.Affinity) []string {
	if affinity == nil {
		return nil
	}
	var lines []string
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		var parts []string
		for _, e := range term.MatchExpressions {
			parts = append(parts, e.Key+" "+string(e.Operator)+" ["+strings.Join(e.Values, " ")+"]")
		}
		lines = append(lines, strings.Join(parts, " and "))
	}
	return lines
}

// TestRightsFollowTheSettings: what is switched off takes no right with it.
func TestRightsFollowTheSettings(t *testing.T) {
	tests := []struct {
		values       string
		capabilities []corev1.Capability
		volumes      []string // beside those that are always there
		resources    []string // of the role, likewise
	}{
		{"", []corev1.Capability{"NET_ADMIN", "SYS_ADMIN", "NET_RAW", "SYS_PTRACE"}, []string{"bpffs", "proc"}, nil},
		{"drivers: {net: {dhcp: false}}", []corev1.Capability{"NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE"}, []string{"bpffs", "proc"}, nil},
		{"verify: {interval: '0'}", []corev1.Capability{"NET_ADMIN", "SYS_ADMIN", "NET_RAW"}, []string{"bpffs"}, nil},
		{"drivers: {net: {ebpf: false}}", []corev1.Capability{"NET_ADMIN", "SYS_ADMIN", "NET_RAW", "SYS_PTRACE"}, []string{"proc"}, nil},
		{"drivers: {net: {enabled: false}}", []corev1.Capability{"NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE"}, []string{"proc"}, nil},
		{
			"metrics: {enabled: true, tlsSecret: x}", []corev1.Capability{"NET_ADMIN", "SYS_ADMIN", "NET_RAW", "SYS_PTRACE"},
			[]string{"bpffs", "metrics-cert", "proc"}, []string{"tokenreviews", "subjectaccessreviews"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.values, func(t *testing.T) {
			objects := rendered(t, tc.values)
			pod := only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec
			if diff := cmp.Diff(tc.capabilities, pod.Containers[0].SecurityContext.Capabilities.Add); diff != "" {
				t.Errorf("capabilities (-want +got):\n%s", diff)
			}
			var volumes []string
			for _, v := range pod.Volumes {
				if slices.Contains([]string{"bpffs", "metrics-cert", "proc"}, v.Name) {
					volumes = append(volumes, v.Name)
				}
			}
			slices.Sort(volumes)
			if diff := cmp.Diff(tc.volumes, volumes); diff != "" {
				t.Errorf("volumes (-want +got):\n%s", diff)
			}
			var resources []string
			for _, rule := range roleNamed(t, objects, deploy.AgentServiceAccount).Rules {
				for _, resource := range rule.Resources {
					if resource == "tokenreviews" || resource == "subjectaccessreviews" {
						resources = append(resources, resource)
					}
				}
			}
			if diff := cmp.Diff(tc.resources, resources); diff != "" {
				t.Errorf("rights (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEveryMountHasItsVolume, and nothing is mounted that is not used.
func TestEveryMountHasItsVolume(t *testing.T) {
	for _, values := range []string{"", "drivers: {net: {ebpf: false}}", "metrics: {enabled: true, tlsSecret: x}"} {
		pod := only[*appsv1.DaemonSet](t, rendered(t, values)).Spec.Template.Spec
		mounted := map[string]bool{}
		for _, m := range pod.Containers[0].VolumeMounts {
			mounted[m.Name] = true
		}
		for _, v := range pod.Volumes {
			if !mounted[v.Name] {
				t.Errorf("%q: volume %s is not mounted", values, v.Name)
			}
			delete(mounted, v.Name)
		}
		for name := range mounted {
			t.Errorf("%q: no volume for mount %s", values, name)
		}
	}
}
