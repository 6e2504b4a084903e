// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package guest

// PlanPath is where the guest finds its Plan, as JSON.
const PlanPath = "/etc/plumblab/guest.json"

// Plan is what a guest makes of itself at boot.
type Plan struct {
	// Hostname is the node's name.
	Hostname string `json:"hostname"`
	// Modules are kernel module files in the order to load them.
	Modules []string `json:"modules"`
	// ModuleOptions are the parameters that modules are loaded with, by name.
	ModuleOptions map[string]string `json:"moduleOptions,omitempty"`
	// Management is the NIC that reaches the host.
	Management Management `json:"management"`
	// NICs are the machine's own.
	NICs []NIC `json:"nics,omitempty"`
	// NUMA are the nodes of PCI functions whose root cannot say: QEMU gives
	// bus 00 none.
	NUMA map[string]int `json:"numa,omitempty"`
	// Sysctls are kernel settings, by name with dots.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// Services are started in this order.
	Services []Service `json:"services,omitempty"`
}

// Management is the NIC behind which QEMU's user network lies.
type Management struct {
	// MAC finds it, Name is what it becomes.
	MAC  string `json:"mac"`
	Name string `json:"name"`
	// Address is in CIDR form; Gateway is the host's loopback.
	Address string `json:"address"`
	Gateway string `json:"gateway"`
}

// NIC is one of the machine's NICs.
type NIC struct {
	// PCI is its address, by which it is found.
	PCI string `json:"pci"`
	// Name is its interface name.
	Name string `json:"name"`
	// MTU is in bytes; zero leaves the driver's.
	MTU int `json:"mtu,omitempty"`
	// Address is in CIDR form; empty for none.
	Address string `json:"address,omitempty"`
	// RDMA is the name of the soft RoCE device to put on it; empty for none.
	RDMA string `json:"rdma,omitempty"`
}

// Service is one program the guest runs.
type Service struct {
	// Name names its log on this host.
	Name string `json:"name"`
	// Argv is program and arguments, Env its environment besides PATH and HOME.
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"`
	// After is a file that must exist first, such as another's socket.
	After string `json:"after,omitempty"`
	// Once is set on a program that ends by itself: it is run until it
	// succeeds, and the next service waits for it. Others are started again
	// when they end.
	Once bool `json:"once,omitempty"`
}

// The guest's named ports to this host.
const (
	// ControlPort takes Requests.
	ControlPort = "plumblab.control"
	// LogPrefix and a service's name make the port for what it prints.
	LogPrefix = "plumblab.log."
)

// Request is one line of JSON from this host.
type Request struct {
	// ID is repeated in the answer: one that its asker did not wait for
	// reaches the next.
	ID string `json:"id"`
	// Argv is a program to run as root in the guest, Stdin its input.
	Argv  []string `json:"argv,omitempty"`
	Stdin []byte   `json:"stdin,omitempty"`
	// TimeoutSeconds ends the program.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
}

// Response is one line of JSON from the guest.
type Response struct {
	ID     string `json:"id"`
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
	// Code is the program's exit code.
	Code int `json:"code"`
	// Error says why the program did not run or end by itself.
	Error string `json:"error,omitempty"`
}

// The lines of the console that this host waits for. Console lines of the
// guest's own begin with Mark.
const (
	Mark = "plumblab: "
	// Up: hardware and network are as planned.
	Up = "guest is up"
	// Started: every service has been started.
	Started = "services are started"
	// Failed begins the line that says why the guest gave up.
	Failed = "failed: "
)
