// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/report"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// target is where an arm's server listens, and where its client sends from.
type target struct {
	arm  plan.Arm
	ends plan.Ends
	// carriers are what its load goes by on the server's side and on the client's: interfaces,
	// or RDMA devices.
	carriers [2]string
}

// end is the server's, or the client's.
func (t *target) end(server bool) *plan.End {
	if server {
		return &t.ends.Server
	}
	return &t.ends.Client
}

// readDevices reads what was allocated, refuses arms that differ in anything undeclared, and
// finds the addresses of each arm.
func (m *measurement) readDevices(ctx context.Context) error {
	claims, err := m.awaitTold(ctx)
	if err != nil {
		return err
	}
	a, b := m.plan.Devices(m.plan.A, claims), m.plan.Devices(m.plan.B, claims)
	if err := plan.Compare(m.plan.Variable, a, b); err != nil {
		return err
	}
	m.targets = map[report.Letter]target{}
	for _, one := range []struct {
		letter  report.Letter
		arm     plan.Arm
		devices []plan.Device
		into    *report.Arm
	}{{report.A, m.plan.A, a, &m.report.A}, {report.B, m.plan.B, b, &m.report.B}} {
		t, err := m.target(one.arm, claims)
		if err != nil {
			return err
		}
		m.targets[one.letter] = t
		*one.into = report.Arm{
			Name: one.arm.Name, Interface: one.arm.Interface, Devices: append([]plan.Device{}, one.devices...),
		}
		for _, side := range m.plan.Sides() {
			end := t.end(side.Role == m.plan.Server.Role)
			if end.Address.IsValid() {
				one.into.Addresses = append(one.into.Addresses, end.Address.String())
			}
			if end.CPUs != "" {
				one.into.CPUs = append(one.into.CPUs, end.CPUs)
			}
		}
	}
	return nil
}

// awaitTold reads the claims, and waits until their status says of every NIC and CPU that was
// allocated what it is in the pod: drivers say so a moment after the pod is ready. What is not
// said in time is missed by who needs it.
func (m *measurement) awaitTold(ctx context.Context) (map[string]*resourceapi.ResourceClaim, error) {
	claims := map[string]*resourceapi.ResourceClaim{}
	err := m.await(ctx, func(ctx context.Context) (bool, error) {
		told := true
		for _, side := range m.plan.Sides() {
			claim, err := m.Client.ResourceV1().ResourceClaims(side.Claim.Namespace).Get(ctx, side.Claim.Name, metav1.GetOptions{})
			if err != nil {
				return false, fmt.Errorf("read resource claim %s: %w", side.Claim.Name, err)
			}
			claims[side.Role] = claim
			told = told && isTold(claim)
		}
		return told, nil
	})
	if errors.Is(err, errPatience) {
		err = nil
	}
	return claims, err
}

// isTold says whether a claim's status has an entry for each NIC and CPU that was allocated.
func isTold(claim *resourceapi.ResourceClaim) bool {
	if claim.Status.Allocation == nil {
		return false
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		told := true
		switch r.Driver {
		case slicecodec.DriverCPU:
			told = !slicecodec.CPUsOf(claim, r).IsEmpty()
		case slicecodec.DriverNet:
			told = slices.ContainsFunc(claim.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool {
				return d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device && d.NetworkData != nil
			})
		}
		if !told {
			return false
		}
	}
	return true
}

// target finds an address on either side, both of one family.
func (m *measurement) target(arm plan.Arm, claims map[string]*resourceapi.ResourceClaim) (target, error) {
	if m.plan.Tool.Carrier == plan.Uncounted {
		t := target{arm: arm}
		err := m.bind(&t, claims)
		return t, err
	}
	servers := addresses(arm, m.pods[m.plan.Server.Role], claims[m.plan.Server.Role])
	clients := addresses(arm, m.pods[m.plan.Client.Role], claims[m.plan.Client.Role])
	for _, server := range servers {
		for _, client := range clients {
			if server.Is4() == client.Is4() {
				t := target{arm: arm, carriers: [2]string{arm.Interface, arm.Interface}}
				t.ends = plan.Ends{Server: plan.End{Address: server, Interface: arm.Interface}, Client: plan.End{Address: client, Interface: arm.Interface}}
				err := m.bind(&t, claims)
				return t, err
			}
		}
	}
	return target{}, fmt.Errorf("arm %s: server has addresses %v and client %v: want one of each, of one family: --addresses gives claimed NICs a subnet", arm.Name, servers, clients)
}

// bind finds the CPUs that an arm's tool is bound to on both sides.
func (m *measurement) bind(t *target, claims map[string]*resourceapi.ResourceClaim) error {
	if t.arm.CPUs == "" {
		return nil
	}
	for _, side := range m.plan.Sides() {
		end := t.end(side.Role == m.plan.Server.Role)
		if end.CPUs = cpusOf(claims[side.Role], t.arm.CPUs); end.CPUs == "" {
			return fmt.Errorf("arm %s: claim %s: its status does not say which CPUs request %s was given: want plumbline's driver of CPUs", t.arm.Name, side.Claim.Name, t.arm.CPUs)
		}
	}
	return nil
}

// cpusOf are the CPUs that a claim's request was given, as the driver says in its status;
// empty while it does not say all of them.
func cpusOf(claim *resourceapi.ResourceClaim, request string) string {
	all := cpuset.New()
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Request != request {
			continue
		}
		cpus := slicecodec.CPUsOf(claim, r)
		if cpus.IsEmpty() {
			return ""
		}
		all = all.Union(cpus)
	}
	return all.String()
}

// addresses are those of an arm's interface in a pod, without those of the link alone.
func addresses(arm plan.Arm, pod *corev1.Pod, claim *resourceapi.ResourceClaim) []netip.Addr {
	var texts []string
	if arm.Request == "" {
		for _, ip := range pod.Status.PodIPs {
			texts = append(texts, ip.IP)
		}
	}
	for _, d := range claim.Status.Devices {
		if arm.Request != "" && d.NetworkData != nil && d.NetworkData.InterfaceName == arm.Interface {
			texts = append(texts, d.NetworkData.IPs...)
		}
	}
	var all []netip.Addr
	for _, text := range texts {
		a, err := netip.ParseAddr(text)
		if prefix, failed := netip.ParsePrefix(text); err != nil && failed == nil {
			a, err = prefix.Addr(), nil
		}
		if err == nil && !a.IsLinkLocalUnicast() {
			all = append(all, a)
		}
	}
	return all
}
