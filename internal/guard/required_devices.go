// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"plumbline.dev/plumbline/internal/driver/netdev/nslink"
	"plumbline.dev/plumbline/internal/model"
)

// Want is what one device of a claim means for a container.
type Want struct {
	// Claim is "namespace/name", for people.
	Claim string `json:"claim"`
	// Device is the device's name in its pool.
	Device string `json:"device"`
	// NIC must be in the container's network namespace; nil for none.
	NIC *NIC `json:"nic,omitempty"`
	// RDMA must be in the namespace, too, and its file in the container; nil for none.
	RDMA *RDMA `json:"rdma,omitempty"`
	// CPUs and Mems are where the container may run by this device, as lists
	// such as 0-3,8; empty for anywhere.
	CPUs string `json:"cpus,omitempty"`
	Mems string `json:"mems,omitempty"`
}

// NIC is what an interface keeps wherever it goes.
type NIC struct {
	PCI  *model.PCIAddress `json:"pci,omitempty"`
	Port *string           `json:"port,omitempty"`
	// Alone: the PCI function has no other interface.
	Alone        bool    `json:"alone,omitempty"`
	PermanentMAC *string `json:"permanentMAC,omitempty"`
	MAC          *string `json:"mac,omitempty"`
	// GivenMAC is the MAC that its configuration gives it.
	GivenMAC *string `json:"givenMAC,omitempty"`
	Kind     *string `json:"kind,omitempty"`
}

// NICOf is the identity of a NIC of the inventory; nil where it has no
// interface, so that there is nothing to look for.
func NICOf(n model.NIC, alone bool, givenMAC *string) *NIC {
	if n.Interface == nil {
		return nil
	}
	return &NIC{
		PCI: n.PCI, Port: n.Port, Alone: alone, GivenMAC: givenMAC,
		PermanentMAC: n.Interface.PermanentMAC, MAC: n.Interface.MAC, Kind: n.Interface.Kind,
	}
}

func (n NIC) identity() nslink.Identity {
	return nslink.IdentityOf(model.NIC{
		PCI: n.PCI, Port: n.Port,
		Interface: &model.Interface{PermanentMAC: n.PermanentMAC, MAC: n.MAC, Kind: n.Kind},
	}, n.GivenMAC).Alone(n.Alone)
}

// wantFlag carries a Want in a hook's arguments.
const wantFlag = "--want="

// Args are the arguments of one hook that wants all of these, without the
// program's name.
func Args(wants ...Want) ([]string, error) {
	args := make([]string, 0, len(wants))
	for _, w := range wants {
		text, err := json.Marshal(w)
		if err != nil {
			return nil, fmt.Errorf("guard device %s of claim %s: %w", w.Device, w.Claim, err)
		}
		args = append(args, wantFlag+string(text))
	}
	return args, nil
}

// parseArgs reads what Args has written.
func parseArgs(args []string) ([]Want, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("no arguments: want %s and a device in JSON, or %s", wantFlag, SelfTest)
	}
	wants := make([]Want, 0, len(args))
	for _, arg := range args {
		w, err := parseArg(arg)
		if err != nil {
			return nil, err
		}
		wants = append(wants, w)
	}
	return wants, nil
}

func parseArg(arg string) (Want, error) {
	text, ok := strings.CutPrefix(arg, wantFlag)
	if !ok {
		return Want{}, fmt.Errorf("argument %q: want %s and a device in JSON", arg, wantFlag)
	}
	var w Want
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return Want{}, fmt.Errorf("argument %q: %w", arg, err)
	}
	for _, list := range []string{w.CPUs, w.Mems} {
		if _, err := parseList(list); err != nil {
			return Want{}, fmt.Errorf("argument %q: %w", arg, err)
		}
	}
	return w, nil
}

// maxID is more than any kernel numbers (NR_CPUS, MAX_NUMNODES).
const maxID = 1 << 16

// parseList reads a list such as 0-3,8. It never makes a set of what a typing
// error could ask for.
func parseList(list string) (cpuset.CPUSet, error) {
	for _, number := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == '-' }) {
		if n, err := strconv.Atoi(number); err != nil || n > maxID {
			return cpuset.CPUSet{}, fmt.Errorf("list %q: %q: want a number up to %d", list, number, maxID)
		}
	}
	return cpuset.Parse(list)
}
