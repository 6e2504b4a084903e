// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/bench/tools"
	"plumbline.dev/plumbline/internal/bench/tools/iperf3"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/printable"
)

// TCP is the kind of TCPOptions.
const TCP = "tcp"

// PodNetwork is what Against says for the pods' own interface, and what that is called in
// nearly every pod.
const PodNetwork = "eth0"

// TCPPort is where the server listens.
const TCPPort = 5201

// Names of the requests, and of the interfaces in the pods.
const (
	requestA, requestB     = "nic", "other"
	requestCPUs            = "cpus"
	interfaceA, interfaceB = "bench0", "bench1"
)

// TCPOptions say which throughputs are compared.
type TCPOptions struct {
	// Run is the name that all objects have, Namespace where they are made.
	Run, Namespace string
	// Image has iperf3 and cat.
	Image string
	// Nodes are those of server and client; one is for both, none leaves it to the scheduler.
	Nodes []string
	// NIC is a CEL expression that the first arm's NICs fulfil; empty for any NIC.
	NIC string
	// Against is PodNetwork, or such an expression for the second arm's NICs.
	Against string
	// CPUs are so many exclusive ones for each pod, the same in both arms; 0 is none.
	CPUs int
	// Addresses are subnets, one for each arm's NICs; none leaves the NICs those of the host.
	Addresses []netip.Prefix
	// Seconds are those of a run.
	Seconds int
}

// NewTCP has each of two pods hold the NICs of both arms.
func NewTCP(o TCPOptions) (*Plan, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &Plan{
		Kind: TCP, Variable: NIC, Tool: o.tool(),
		A: Arm{Name: requestA, Request: requestA, Interface: interfaceA}, B: Arm{Name: requestB, Request: requestB, Interface: interfaceB},
	}
	if o.Against == PodNetwork {
		p.B = Arm{Name: PodNetwork, Interface: PodNetwork}
	}
	p.Keeper = keeper(metav1.ObjectMeta{Namespace: o.Namespace, Labels: map[string]string{Label: o.Run}}, o.Image)
	for i, side := range []*Side{&p.Server, &p.Client} {
		*side = Side{Role: []string{"server", "client"}[i]}
		meta := object(o.Namespace, o.Run, side.Role)
		claim, err := o.claim(meta, p.Arms(), i)
		if err != nil {
			return nil, err
		}
		side.Claim = claim
		side.Pod = o.pod(meta, o.node(i))
	}
	return p, nil
}

// tool has the client send one stream for so many seconds.
func (o TCPOptions) tool() Tool {
	return Tool{
		Figure:  tools.Figure{Name: "throughput", Unit: "Gbit/s", HigherIsBetter: true},
		Seconds: o.Seconds,
		Measure: func(e Ends) []string {
			return []string{
				"iperf3", "--client", e.Server.Address.String(), "--bind", e.Client.Address.String(), "--port", strconv.Itoa(TCPPort),
				"--time", strconv.Itoa(o.Seconds), "--connect-timeout", "10000", "--json",
			}
		},
		Read: func(out io.Reader) (Reading, error) {
			result, err := iperf3.Parse(out)
			if err != nil {
				return Reading{}, err
			}
			if result.Protocol != "TCP" {
				return Reading{}, errors.New("iperf3 -J: it measured " + printable.Text(result.Protocol) + ", want TCP")
			}
			return Reading{
				Value: result.Received.Value, Version: result.Version, Retransmits: result.Retransmits,
				Load: Load{Said: result.Received.Value * 1e9 / 8 * float64(o.Seconds), Fewest: 0.9, Most: 1.3},
			}, nil
		},
	}
}

func (o TCPOptions) check() error {
	nics := 2
	if o.Against == PodNetwork {
		nics = 1
	}
	switch {
	case o.Image == "":
		return fmt.Errorf("%w: no image: want one that has iperf3 and cat", ErrOptions)
	case o.Against == "":
		return fmt.Errorf("%w: nothing to compare with: want %s, or an expression that other NICs fulfil", ErrOptions, PodNetwork)
	case len(o.Nodes) > 2:
		return fmt.Errorf("%w: %d nodes: want at most two, of the server and of the client", ErrOptions, len(o.Nodes))
	case o.CPUs < 0:
		return fmt.Errorf("%w: %d CPUs: want a number above 0, or none", ErrOptions, o.CPUs)
	case len(o.Addresses) > 0 && len(o.Addresses) != nics:
		return fmt.Errorf("%w: %d subnets of addresses: want %d, one for each claimed NIC", ErrOptions, len(o.Addresses), nics)
	}
	for i, subnet := range o.Addresses {
		if subnet != subnet.Masked() || subnet.Bits() > subnet.Addr().BitLen()-2 {
			return fmt.Errorf("%w: %s is no subnet with two addresses: want such as 192.168.200.0/24", ErrOptions, subnet)
		}
		if i > 0 && subnet.Overlaps(o.Addresses[0]) {
			return fmt.Errorf("%w: subnets %s and %s overlap: the kernel could take either NIC", ErrOptions, o.Addresses[0], subnet)
		}
	}
	return nil
}

// node is that of the server (0) or of the client (1).
func (o TCPOptions) node(side int) string {
	if len(o.Nodes) == 0 {
		return ""
	}
	return o.Nodes[min(side, len(o.Nodes)-1)]
}

func (o TCPOptions) claim(meta metav1.ObjectMeta, arms []Arm, side int) (*resourceapi.ResourceClaim, error) {
	claim := &resourceapi.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaim"},
		ObjectMeta: meta,
	}
	devices := &claim.Spec.Devices
	for i, arm := range arms {
		if arm.Request == "" {
			continue
		}
		request := &resourceapi.ExactDeviceRequest{DeviceClassName: slicecodec.DriverNet}
		if expression := []string{o.NIC, o.Against}[i]; expression != "" {
			request.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
		}
		devices.Requests = append(devices.Requests, resourceapi.DeviceRequest{Name: arm.Request, Exactly: request})
		config, err := o.config(arm, i, side)
		if err != nil {
			return nil, err
		}
		devices.Config = append(devices.Config, config)
	}
	if o.CPUs > 0 {
		devices.Requests = append(devices.Requests, resourceapi.DeviceRequest{Name: requestCPUs, Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: slicecodec.DriverCPU,
			Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
				slicecodec.CapacityCPU: resource.MustParse(strconv.Itoa(o.CPUs)),
			}},
		}})
	}
	return claim, nil
}

// config names an arm's interface, and gives it an address of its own where there are subnets.
func (o TCPOptions) config(arm Arm, at, side int) (resourceapi.DeviceClaimConfiguration, error) {
	link := map[string]any{"name": arm.Interface}
	if len(o.Addresses) > 0 {
		address := o.Addresses[at].Addr().Next()
		if side == 1 {
			address = address.Next()
		}
		link["addresses"] = []string{netip.PrefixFrom(address, o.Addresses[at].Bits()).String()}
		// Both arms' NICs may be in one network: either would answer for the other's address.
		link["arpIgnore"], link["arpAnnounce"] = 1, 2
	}
	parameters, err := json.Marshal(map[string]any{"interface": link})
	if err != nil {
		return resourceapi.DeviceClaimConfiguration{}, fmt.Errorf("write the parameters of request %s: %w", arm.Request, err)
	}
	return resourceapi.DeviceClaimConfiguration{
		Requests: []string{arm.Request},
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: slicecodec.DriverNet, Parameters: runtime.RawExtension{Raw: parameters},
		}},
	}, nil
}

// pod is that of either side: the client's listens too, so that a pod that runs has the tool.
func (o TCPOptions) pod(meta metav1.ObjectMeta, node string) *corev1.Pod {
	const claim = "devices"
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			ResourceClaims:                []corev1.PodResourceClaim{{Name: claim, ResourceClaimName: &meta.Name}},
			Containers: []corev1.Container{{
				Name: Container, Image: o.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Command:   []string{"iperf3", "--server", "--port", strconv.Itoa(TCPPort)},
				Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: claim}}},
				// Not for readiness: that would connect again and again while the tool measures.
				StartupProbe: &corev1.Probe{
					ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(TCPPort)}},
					PeriodSeconds: 1, FailureThreshold: 60,
				},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
			}},
		},
	}
	if node != "" {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	return p
}
