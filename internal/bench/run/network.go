// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plumbline.dev/plumbline/internal/bench/plan"
	"plumbline.dev/plumbline/internal/bench/report"
)

// target is where an arm's server listens, and where its client sends from.
type target struct {
	arm  plan.Arm
	ends plan.Ends
}

// readDevices reads what was allocated, refuses arms that differ in anything undeclared, and
// finds the addresses of each arm.
func (m *measurement) readDevices(ctx context.Context) error {
	claims := map[string]*resourceapi.ResourceClaim{}
	for _, side := range m.plan.Sides() {
		claim, err := m.Client.ResourceV1().ResourceClaims(side.Claim.Namespace).Get(ctx, side.Claim.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read resource claim %s: %w", side.Claim.Name, err)
		}
		claims[side.Role] = claim
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
			Addresses: []string{t.ends.Server.Address.String(), t.ends.Client.Address.String()},
		}
	}
	return nil
}

// target finds an address on either side, both of one family.
func (m *measurement) target(arm plan.Arm, claims map[string]*resourceapi.ResourceClaim) (target, error) {
	servers := addresses(arm, m.pods[m.plan.Server.Role], claims[m.plan.Server.Role])
	clients := addresses(arm, m.pods[m.plan.Client.Role], claims[m.plan.Client.Role])
	for _, server := range servers {
		for _, client := range clients {
			if server.Is4() == client.Is4() {
				return target{arm: arm, ends: plan.Ends{Server: plan.End{Address: server}, Client: plan.End{Address: client}}}, nil
			}
		}
	}
	return target{}, fmt.Errorf("arm %s: server has addresses %v and client %v: want one of each, of one family: --addresses gives claimed NICs a subnet", arm.Name, servers, clients)
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
