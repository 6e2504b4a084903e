// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"

	"plumbline.dev/plumbline/internal/cloud/providers"
	"plumbline.dev/plumbline/internal/inventory/filter"
	"plumbline.dev/plumbline/internal/metrics/endpoint"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// GPU modes.
const (
	// GPUExternal leaves gpu.nvidia.com to another driver.
	GPUExternal = "external"
	// GPUSimulated offers the GPUs of a machine file, each by a stand-in.
	GPUSimulated = "simulated"
)

// Options are what an agent is told. Every path is a value here; nothing below
// reads the environment.
type Options struct {
	// NodeName is the Kubernetes node the agent runs on.
	NodeName string
	// Drivers are the DRA driver names to serve; none is allowed.
	Drivers []string
	// NodeSelectors serve a driver only where the node carries these labels.
	NodeSelectors map[string]labels.Selector
	// GPUMode is GPUExternal or GPUSimulated.
	GPUMode string
	// Machine names the machine file whose hardware the host stands in for; empty where
	// it stands in for none. Its GPUs are simulated where GPUMode says so.
	Machine string
	// VerifyInterval is how often the node's pods are compared with what the kernel
	// says of them; 0: never.
	VerifyInterval time.Duration
	// HostReportInterval is how often the host is checked for its HostReport without
	// a change of the machine; 0: never, and there is no report.
	HostReportInterval time.Duration
	// HostTaints taints single devices that those checks find broken, where
	// DeviceTaints is not TaintNone.
	HostTaints bool
	// HostSetup has plumbline-host-setup asked for what HostPolicies want and the agent may
	// not do.
	HostSetup bool
	// SysfsRoot is /sys of the host; ProcRoot is its /proc, for the boot id, and
	// for the processes of pods where those are verified.
	SysfsRoot, ProcRoot string
	// ProcSys is a /proc/sys in which net can be written: per-interface settings
	// of every network namespace.
	ProcSys string
	// BPFFS is the BPF file system, where eBPF programs that were taken off a NIC
	// are kept; empty where there is none.
	BPFFS string
	// DeviceMetadata shows containers what they were given (KEP-5304).
	DeviceMetadata bool
	// AllowLoss takes NICs although something on them will not come back.
	AllowLoss bool
	// StateDir holds the journal.
	StateDir string
	// Socket is where the agent answers its own commands; a directory that no
	// other agent uses.
	Socket string
	// MetricsAddress is where figures are served to scrapers, ADDRESS:PORT; empty:
	// nowhere. MetricsCertDir holds tls.crt and tls.key for it; empty: the agent
	// signs for itself.
	MetricsAddress, MetricsCertDir string
	// BindAddress is where health and figures are served by plain HTTP to everybody;
	// empty: nowhere.
	BindAddress string
	// GuardSource is the plumbline-guard to install below StateDir, for the
	// container runtime to run; empty: containers are not guarded.
	GuardSource string
	// PodUID is the agent's own pod. With it a second agent may start before this
	// one ends, as a DaemonSet with maxSurge does; empty: one at a time.
	PodUID string
	// CDIDir is where the container runtime looks for CDI specs.
	CDIDir string
	// KubeletRoot holds plugins and plugins_registry.
	KubeletRoot string
	// CgroupRoot is where the host's control groups are mounted, writable; empty:
	// the container runtime moves containers.
	CgroupRoot string
	// NRISocket is where the container runtime listens for NRI plugins.
	NRISocket string
	// PCIIDs is the database of PCI names; where it is missing, devices are
	// published without them.
	PCIIDs string
	// CPUs says how CPUs are offered, and which are not.
	CPUs slicecodec.CPUOptions
	// Kubeconfig is empty inside a cluster.
	Kubeconfig string
	// Filter is a CEL expression over the attributes of NICs, which is true of
	// those that may be offered; empty: all.
	Filter string
	// AllowInterfaces are the virtual interfaces that may be offered: names,
	// patterns of names, and kind:KIND.
	AllowInterfaces []string
	// MoveIBInterfaces moves IPoIB interfaces into pods; without it they stay on the
	// host, and their NICs are RDMA devices alone.
	MoveIBInterfaces bool
	// NCCLTopologyFile is a file of NCCL that says which GPU each NIC belongs to; empty
	// where there is none. A node may lack it.
	NCCLTopologyFile string
	// DataDirectAsRoot publishes the PCIe root of a NIC's Data Direct function as its own.
	DataDirectAsRoot bool
	// AllowPhysicalFunctions offers physical functions that have virtual ones.
	AllowPhysicalFunctions bool
	// DeviceTaints is the effect of the taints of faulty devices: TaintNone,
	// NoSchedule or NoExecute.
	DeviceTaints string
	// Cloud says whom to ask what the node's NICs are connected to.
	Cloud providers.Options
}

// TaintNone leaves faulty devices untainted; the claims that hold them still say
// what is wrong.
const TaintNone = "None"

// DefaultOptions are the paths of an ordinary node, with both drivers that
// need no vendor's software.
func DefaultOptions() Options {
	return Options{
		Drivers:        []string{slicecodec.DriverNet, slicecodec.DriverCPU, slicecodec.DriverGPU},
		GPUMode:        GPUExternal,
		VerifyInterval: 10 * time.Second,
		SysfsRoot:      "/sys",
		ProcRoot:       "/proc",
		ProcSys:        "/proc/sys",
		BPFFS:          "/sys/fs/bpf",
		StateDir:       "/var/lib/plumbline",
		Socket:         "/run/plumbline/agent.sock",
		CDIDir:         "/var/run/cdi",
		KubeletRoot:    "/var/lib/kubelet",
		CgroupRoot:     "/sys/fs/cgroup",
		NRISocket:      "/var/run/nri/nri.sock",
		PCIIDs:         "/usr/share/misc/pci.ids",
		DeviceTaints:   string(resourceapi.DeviceTaintEffectNoSchedule),
		Cloud:          providers.DefaultOptions(),

		MoveIBInterfaces:   true,
		DeviceMetadata:     true,
		HostReportInterval: time.Minute,
		HostTaints:         true,
	}
}

// ParseDrivers reads a list such as "net,cpu" or "dra.net,dra.cpu"; "none"
// alone is the empty list.
func ParseDrivers(list []string) ([]string, error) {
	if len(list) == 1 && list[0] == "none" {
		return nil, nil
	}
	var names []string
	for _, word := range list {
		name, err := driverName(word)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func driverName(word string) (string, error) {
	switch word {
	case "net", slicecodec.DriverNet:
		return slicecodec.DriverNet, nil
	case "cpu", slicecodec.DriverCPU:
		return slicecodec.DriverCPU, nil
	case "gpu", slicecodec.DriverGPU:
		return slicecodec.DriverGPU, nil
	}
	return "", fmt.Errorf("driver %q: want net, cpu or gpu, or none alone", word)
}

// ParseNodeSelectors reads "driver:key=value,key=value" once per driver.
func ParseNodeSelectors(list []string) (map[string]labels.Selector, error) {
	selectors := map[string]labels.Selector{}
	for _, item := range list {
		word, text, ok := strings.Cut(item, ":")
		if !ok {
			return nil, fmt.Errorf("driver node selector %q: want driver:key=value,key=value", item)
		}
		name, err := driverName(word)
		if err != nil {
			return nil, fmt.Errorf("driver node selector %q: %w", item, err)
		}
		selector, err := labels.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("driver node selector %q: %w", item, err)
		}
		selectors[name] = selector
	}
	return selectors, nil
}

// Validate says everything that is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	if o.NodeName == "" {
		errs = append(errs, errors.New("--node-name: want the name of the node the agent runs on"))
	}
	switch o.GPUMode {
	case GPUExternal:
	case GPUSimulated:
		if o.Machine == "" {
			errs = append(errs, errors.New("--machine: --gpu-mode=simulated needs the name or the path of a machine file"))
		}
	default:
		errs = append(errs, fmt.Errorf("--gpu-mode=%q: want %s or %s", o.GPUMode, GPUExternal, GPUSimulated))
	}
	if _, err := providers.Choose(o.Cloud); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, o.validateOffer(), validateAddress("bind-address", o.BindAddress), validateAddress("metrics-address", o.MetricsAddress))
	if o.BindAddress != "" && o.BindAddress == o.MetricsAddress {
		errs = append(errs, fmt.Errorf("--bind-address=%s: is that of --metrics-address, which is served by HTTPS: want another port", o.BindAddress))
	}
	if o.VerifyInterval != 0 && o.VerifyInterval < time.Second {
		errs = append(errs, fmt.Errorf("--verify-interval=%s: want 1s or more, or 0 for never", o.VerifyInterval))
	}
	if o.HostReportInterval != 0 && o.HostReportInterval < 10*time.Second {
		errs = append(errs, fmt.Errorf("--host-report-interval=%s: want 10s or more, or 0 for never", o.HostReportInterval))
	}
	if n := o.CPUs.ReservedPerNUMA; n < 0 {
		errs = append(errs, fmt.Errorf("--reserved-per-numa=%d: want 0 or more", n))
	}
	for flag, path := range map[string]string{
		"sysfs-root": o.SysfsRoot, "proc-root": o.ProcRoot, "proc-sys": o.ProcSys, "state-dir": o.StateDir, "socket": o.Socket,
		"cdi-dir": o.CDIDir, "kubelet-root": o.KubeletRoot, "nri-socket": o.NRISocket,
	} {
		if !filepath.IsAbs(path) {
			errs = append(errs, fmt.Errorf("--%s=%q: want an absolute path", flag, path))
		}
	}
	return errors.Join(errs...)
}

// validateAddress says what is wrong with an address to listen on, if there is one.
func validateAddress(flag, address string) error {
	if address == "" {
		return nil
	}
	if err := endpoint.CheckAddress(address); err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}

// validateOffer says what is wrong with the options on which devices are offered.
func (o Options) validateOffer() error {
	var errs []error
	if _, err := filter.New(o.Filter); err != nil {
		errs = append(errs, fmt.Errorf("--filter: %w", err))
	}
	if _, err := filter.Interfaces(o.AllowInterfaces); err != nil {
		errs = append(errs, fmt.Errorf("--allow-interfaces: %w", err))
	}
	effects := []string{TaintNone, string(resourceapi.DeviceTaintEffectNoSchedule), string(resourceapi.DeviceTaintEffectNoExecute)}
	if !slices.Contains(effects, o.DeviceTaints) {
		errs = append(errs, fmt.Errorf("--device-taints=%q: want %s", o.DeviceTaints, strings.Join(effects, ", ")))
	}
	return errors.Join(errs...)
}

// served drops gpu.nvidia.com where another driver owns it. The node's labels choose
// among the others while the agent runs.
func (o Options) served() []string {
	var names []string
	for _, name := range o.Drivers {
		if name == slicecodec.DriverGPU && o.GPUMode == GPUExternal {
			continue
		}
		names = append(names, name)
	}
	return names
}

func (o Options) journalDir() string { return filepath.Join(o.StateDir, "journal") }
