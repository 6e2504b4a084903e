// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/agent"
)

// newAgentCommand is the root command: run the agent until it is told to stop.
func newAgentCommand(own surroundings) *cobra.Command {
	options := agent.DefaultOptions()
	options.NodeName, options.PodUID, options.GuardSource = own.nodeName, own.podUID, own.guard
	drivers := []string{"net", "cpu", "gpu"}
	var selectors []string
	var reserved string
	cpuMode, groupBy := agent.CPUsGrouped, agent.CPUsByNUMANode

	cmd := &cobra.Command{
		Use:           "plumbline-agent",
		Short:         "Serve a node's NICs, CPUs and GPUs to Kubernetes",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if options.Drivers, err = agent.ParseDrivers(drivers); err != nil {
				return fmt.Errorf("--drivers: %w", err)
			}
			if options.NodeSelectors, err = agent.ParseNodeSelectors(selectors); err != nil {
				return fmt.Errorf("--driver-node-selector: %w", err)
			}
			if options.CPUs.Reserved, err = cpuset.Parse(reserved); err != nil {
				return fmt.Errorf("--reserved-cpus: %w", err)
			}
			if options.CPUs.Mode, err = agent.ParseCPUMode(cpuMode, groupBy); err != nil {
				return err
			}
			return agent.Run(cmd.Context(), options)
		},
	}

	f := cmd.Flags()
	f.StringVar(&options.NodeName, "node-name", options.NodeName, "name of the node (environment: NODE_NAME)")
	f.StringSliceVar(&drivers, "drivers", drivers, "drivers to serve: net, cpu, gpu, or none alone; the DRA names are understood too")
	f.StringArrayVar(&selectors, "driver-node-selector", nil, "driver:key=value,…: serve the driver only where the node has these labels; once per driver")
	f.StringVar(&options.GPUMode, "gpu-mode", options.GPUMode, "external: another driver serves gpu.nvidia.com; simulated: offer the GPUs of --machine")
	f.StringVar(&options.Machine, "machine", options.Machine, "shipped machine, or path of a machine file, that this host stands in for (labs): its GPUs are simulated, its NICs marked as stand-ins")
	f.StringVar(&options.SysfsRoot, "sysfs-root", options.SysfsRoot, "where the host's /sys is")
	f.StringVar(&options.ProcRoot, "proc-root", options.ProcRoot, "where the host's /proc is; with the pods' processes, where those are verified")
	f.DurationVar(&options.VerifyInterval, "verify-interval", options.VerifyInterval, "how often pods are compared with what the kernel says of them; 0: never")
	f.DurationVar(&options.HostReportInterval, "host-report-interval", options.HostReportInterval, "how often the host is checked, as plumbline doctor does, for the node's HostReport; 0: never")
	f.StringVar(&options.ProcSys, "proc-sys", options.ProcSys, "a /proc/sys whose net can be written")
	f.StringVar(&options.BPFFS, "bpffs", options.BPFFS, "BPF file system that keeps eBPF programs taken off a NIC; empty: NICs with programs are not taken")
	f.BoolVar(&options.AllowLoss, "allow-loss", options.AllowLoss, "take NICs although something on them, such as a classful queueing discipline, will not come back")
	f.StringVar(&options.StateDir, "state-dir", options.StateDir, "journal of prepared claims")
	f.StringVar(&options.Socket, "socket", options.Socket, "where the agent answers its own commands, healthz and metrics")
	f.StringVar(&options.MetricsAddress, "metrics-address", "", "ADDRESS:PORT to serve metrics on, by HTTPS, to who may GET /metrics of the cluster; empty: the socket alone")
	f.StringVar(&options.MetricsCertDir, "metrics-cert-dir", "", "directory with tls.crt and tls.key for --metrics-address; empty: the agent signs for itself")
	f.StringVar(&options.BindAddress, "bind-address", "", "ADDRESS:PORT to serve /healthz and /metrics on by plain HTTP, to everybody who reaches it; empty: the socket alone")
	f.StringVar(&options.GuardSource, "guard", options.GuardSource, "plumbline-guard to install into --state-dir and have containers wait for their devices with; empty: containers are not guarded while no agent is there")
	f.StringVar(&options.PodUID, "pod-uid", options.PodUID, "UID of the agent's own pod, so that its successor may start before it ends (environment: POD_UID); empty: one agent at a time")
	f.StringVar(&options.CDIDir, "cdi-dir", options.CDIDir, "where the container runtime reads CDI specs")
	f.StringVar(&options.KubeletRoot, "kubelet-root", options.KubeletRoot, "the kubelet's directory, with plugins and plugins_registry")
	f.StringVar(&options.CgroupRoot, "cgroup-root", options.CgroupRoot, "where the host's control groups are mounted, writable; empty: the container runtime moves containers, 7 ms each")
	f.StringVar(&options.NRISocket, "nri-socket", options.NRISocket, "where the container runtime listens for NRI plugins")
	f.StringVar(&options.Filter, "filter", options.Filter, `CEL expression over attributes, such as !("dra.net/type" in attributes) || attributes["dra.net/type"].StringValue != "vlan": only NICs that it is true of are offered; empty: all`)
	f.StringSliceVar(&options.AllowInterfaces, "allow-interfaces", nil, "virtual interfaces that are offered: names, patterns such as nic*, and kinds such as kind:macvlan")
	f.BoolVar(&options.MoveIBInterfaces, "move-ib-interfaces", options.MoveIBInterfaces, "move InfiniBand's network interfaces (IPoIB) into pods; false: they stay on the host, and pods get the RDMA device alone")
	f.BoolVar(&options.DeviceMetadata, "device-metadata", options.DeviceMetadata, "mount files into containers that say what their claims gave them (KEP-5304), below /var/run/kubernetes.io; false: none, also of claims that are prepared")
	f.BoolVar(&options.AllowPhysicalFunctions, "allow-physical-functions", options.AllowPhysicalFunctions, "offer physical functions that have virtual functions (SR-IOV), whose links go down when a pod takes the physical one")
	f.StringVar(&options.NCCLTopologyFile, "nccl-topology-file", "", "NCCL's topology file (NCCL_TOPO_FILE), by which NICs are published with the address of their GPU; a node may lack it; empty: the PCIe tree alone")
	f.BoolVar(&options.DataDirectAsRoot, "data-direct-as-root", false, "publish the PCIe root of a NIC's Data Direct function, which is its GPU's, as the NIC's resource.kubernetes.io/pcieRoot, so that claims which match on it pair the two")
	f.StringVar(&options.DeviceTaints, "device-taints", options.DeviceTaints, "effect of the taints of faulty devices: NoSchedule, NoExecute (evicts pods that hold them) or None")
	f.BoolVar(&options.HostSetup, "host-setup", options.HostSetup, "ask plumbline-host-setup for what HostPolicies want and an agent may not do: kernel modules, registers and virtual functions of PCI functions, settings of the whole kernel")
	f.BoolVar(&options.HostTaints, "host-taints", options.HostTaints, "taint devices that checks of the host find broken, with NoSchedule; without effect where --device-taints is None")
	f.StringVar(&cpuMode, "cpu-device-mode", cpuMode, "grouped: claims say how many CPUs of a group; individual: every CPU is a device")
	f.StringVar(&groupBy, "group-by", groupBy, "what a group of CPUs is: numanode, socket or machine")
	f.StringVar(&reserved, "reserved-cpus", reserved, "CPUs that neither claims nor other containers get, such as 0-1")
	f.IntVar(&options.CPUs.ReservedPerNUMA, "reserved-per-numa", 0, "how many CPUs of each NUMA node are reserved, whole cores from the first on; those of --reserved-cpus count")
	f.BoolVar(&options.CPUs.PCIeRoots, "expose-pcie-roots", false, "publish the PCIe roots near to CPUs as a list; only for clusters with the feature gate DRAListTypeAttributes, others refuse or spoil the slices")
	f.StringVar(&options.Kubeconfig, "kubeconfig", options.Kubeconfig, "empty: the pod's service account")
	f.StringVar(&options.Cloud.Provider, "cloud-provider", options.Cloud.Provider, "who says what the NICs are connected to: auto, gce, aws, azure, oke, alibaba, webhook or none")
	f.StringVar(&options.Cloud.Profiles, "profile-provider", options.Cloud.Profiles, "who resolves the profiles that claims name: cloud, webhook or none")
	f.StringVar(&options.Cloud.WebhookURL, "webhook-url", "", "https://HOST[:PORT], http://HOST[:PORT] or unix:///PATH of the webhook")
	f.StringVar(&options.Cloud.MetadataEndpoint, "metadata-endpoint", "", "the cloud's metadata server, host or host:port; empty: where every instance has it")
	addLogFlags(cmd)
	return cmd
}

// addLogFlags offers the two flags of the logging library that people use.
func addLogFlags(cmd *cobra.Command) {
	all := flag.NewFlagSet("log", flag.ContinueOnError)
	klog.InitFlags(all)
	for _, name := range []string{"v", "vmodule"} {
		cmd.Flags().AddGoFlag(all.Lookup(name))
	}
}
