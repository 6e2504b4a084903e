// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// attrDeviceGroup1 is the EFA adapter itself. attrDeviceGroup of n names the group
// of n connected Neuron devices that it lies beside: equal on all of them, and
// what the Neuron driver publishes of the accelerators. A claim's matchAttribute
// brings the two together.
const (
	attrDeviceGroup1 = "resource.aws.com/devicegroup1_id"
	attrDeviceGroup  = "resource.aws.com/devicegroup%d_id"
)

// groupSizes are those of connected Neuron devices.
var groupSizes = []int{4, 8, 16}

// hashDigits is how much of a group's hash is its name.
const hashDigits = 16

// efaBeside are the PCI addresses of the EFA adapters beside each Neuron device,
// by the family of the instance type, in the order of the devices' numbers
// (github.com/aws-neuron/connected-device-maps-over-efa-for-neuron). The domain is
// 0000, the function 0.
var efaBeside = map[string]string{
	"trn1":     "10:1a 10:1a a0:1a a0:1a 20:19 20:19 90:19 90:19 20:1a 20:1a 90:1a 90:1a 10:19 10:19 a0:19 a0:19",
	"trn1n":    "10:17 10:1a a0:17 a0:1a 20:19 20:18 90:19 90:18 20:17 20:1a 90:17 90:1a 10:19 10:18 a0:19 a0:18",
	"trn2":     trn2,
	"trn2e":    trn2,
	"trn2u":    trn2,
	"trn3":     trn3,
	"trn3p":    trn3,
	"trn3pd98": trn3,
	"trn3s":    trn3,
}

const (
	trn2 = "c9:00 b4:00 b3:00 ca:00 6c:00 57:00 56:00 6d:00 98:00 83:00 82:00 99:00 f5:00 e0:00 df:00 f6:00"
	trn3 = "be:00 a9:00 a8:00 bf:00 61:00 4c:00 4b:00 62:00 8d:00 78:00 77:00 8e:00 ea:00 d5:00 d4:00 eb:00"
)

// whole are the instance types of those families that have EFA: the largest.
var whole = []string{"32xlarge", "48xlarge"}

// deviceGroups are the attributes of an EFA adapter by its PCI address; none on
// instances without Neuron devices.
func deviceGroups(instanceType, pci string) map[string]string {
	family, size, _ := strings.Cut(instanceType, ".")
	if !slices.Contains(whole, size) {
		return nil
	}
	var beside []string
	for _, address := range strings.Fields(efaBeside[family]) {
		beside = append(beside, "0000:"+address+".0")
	}
	device := slices.Index(beside, pci)
	if device < 0 {
		return nil
	}
	groups := map[string]string{attrDeviceGroup1: pci}
	for _, size := range groupSizes {
		first := device / size * size
		groups[fmt.Sprintf(attrDeviceGroup, size)] = groupName(beside[first : first+size])
	}
	return groups
}

// groupName is made of the addresses of a group's adapters, each once and in
// order.
func groupName(adapters []string) string {
	unique := slices.Compact(slices.Sorted(slices.Values(adapters)))
	digest := sha256.Sum256([]byte(strings.Join(unique, ",")))
	return hex.EncodeToString(digest[:])[:hashDigits]
}
