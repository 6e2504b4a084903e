// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// Roles of the sides.
const roleServer, roleClient = "server", "client"

// Names of the requests, and of the interfaces in the pods.
const (
	requestA, requestB     = "nic", "other"
	requestCPUs            = "cpus"
	requestFarCPUs         = "far-cpus"
	requestGPU             = "gpu"
	interfaceA, interfaceB = "bench0", "bench1"
)

// wants is what a kind's claims ask for beside what the options say.
type wants struct {
	// selectors are of all its NICs.
	selectors []string
	// near and far are pairs of requests that are of one NUMA node, and that are not.
	near, far [][]string
	// node is the attribute that says of both which NUMA node that is.
	node resourceapi.FullyQualifiedName
	// cpus are the requests of CPUs.
	cpus []string
	// alone has one pod measure, without a server.
	alone bool
}

// build makes the objects of a plan that has its arms. command is the pods'.
func (p *Plan) build(o *Options, w wants, command []string) error {
	p.Keeper = keeper(metav1.ObjectMeta{Namespace: o.Namespace, Labels: map[string]string{Label: o.Run}}, o.Image)
	for i, side := range []*Side{&p.Server, &p.Client} {
		*side = Side{Role: []string{roleServer, roleClient}[i]}
		if w.alone && i == 0 {
			continue
		}
		meta := object(o.Namespace, o.Run, side.Role)
		claim, err := o.claim(meta, p.Arms(), w, i)
		if err != nil {
			return err
		}
		side.Claim = claim
		side.Pod = o.pod(meta, o.node(i), command)
	}
	return nil
}

func (o *Options) claim(meta metav1.ObjectMeta, arms []Arm, w wants, side int) (*resourceapi.ResourceClaim, error) {
	claim := &resourceapi.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaim"},
		ObjectMeta: meta,
	}
	devices := &claim.Spec.Devices
	for i, arm := range arms {
		if arm.Request == "" || i > 0 && arm.Request == arms[0].Request {
			continue
		}
		request := &resourceapi.ExactDeviceRequest{DeviceClassName: slicecodec.DriverNet}
		expressions := w.selectors
		if own := []string{o.NIC, o.Against}[i]; own != "" && own != Misaligned {
			expressions = append(expressions[:len(expressions):len(expressions)], own)
		}
		for _, expression := range expressions {
			request.Selectors = append(request.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
		}
		devices.Requests = append(devices.Requests, resourceapi.DeviceRequest{Name: arm.Request, Exactly: request})
		config, err := o.config(arm, i, side)
		if err != nil {
			return nil, err
		}
		devices.Config = append(devices.Config, config)
	}
	for _, name := range w.cpus {
		devices.Requests = append(devices.Requests, resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: slicecodec.DriverCPU,
			Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
				slicecodec.CapacityCPU: resource.MustParse(strconv.Itoa(o.CPUs)),
			}},
		}})
	}
	if o.GPUs > 0 {
		request := &resourceapi.ExactDeviceRequest{DeviceClassName: slicecodec.DriverGPU}
		if o.GPUs > 1 {
			request.AllocationMode, request.Count = resourceapi.DeviceAllocationModeExactCount, int64(o.GPUs)
		}
		if o.GPU != "" {
			request.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: o.GPU}}}
		}
		devices.Requests = append(devices.Requests, resourceapi.DeviceRequest{Name: requestGPU, Exactly: request})
	}
	for _, pair := range w.near {
		devices.Constraints = append(devices.Constraints, resourceapi.DeviceConstraint{
			Requests: pair, MatchAttribute: &w.node,
		})
	}
	for _, pair := range w.far {
		devices.Constraints = append(devices.Constraints, resourceapi.DeviceConstraint{
			Requests: pair, DistinctAttribute: &w.node,
		})
	}
	return claim, nil
}

// config names an arm's interface, and gives it an address of its own where there are subnets.
func (o *Options) config(arm Arm, at, side int) (resourceapi.DeviceClaimConfiguration, error) {
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

// pod is that of either side.
func (o *Options) pod(meta metav1.ObjectMeta, node string, command []string) *corev1.Pod {
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
				Command:   command,
				Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: claim}}},
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
