// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/cloud"
	"plumbline.dev/plumbline/internal/model"
)

// capabilities is the answer to /health. Newer webhooks may offer more.
type capabilities struct {
	CloudProvider   bool `json:"cloudProvider"`
	ProfileProvider bool `json:"profileProvider"`
}

// device is how the protocol names a device.
type device struct {
	MAC        string `json:"mac_address,omitempty"`
	PCIAddress string `json:"pci_address,omitempty"`
	// Name is the interface's name on the host, empty without one.
	Name string `json:"name"`
}

func deviceOf(d cloud.Device) device {
	return device{MAC: d.MAC, PCIAddress: d.PCI, Name: d.Interface}
}

// profileRequest is the body of /GetProfileConfig.
type profileRequest struct {
	Device device                     `json:"device"`
	Claim  *resourceapi.ResourceClaim `json:"claim"`
	// ShareID is the share's of a NIC that others have shares of; empty for a whole one.
	ShareID types.UID               `json:"share_id,omitempty"`
	Config  *v1alpha1.NetworkConfig `json:"config,omitempty"`
}

// releaseRequest is the body of /ReleaseProfileConfig.
type releaseRequest struct {
	Device   device                  `json:"device"`
	ClaimUID types.UID               `json:"claim_uid"`
	ShareID  types.UID               `json:"share_id,omitempty"`
	Config   *v1alpha1.NetworkConfig `json:"config,omitempty"`
}

func decodeCapabilities(text []byte) (capabilities, error) {
	var c capabilities
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &c); err != nil {
		return capabilities{}, fmt.Errorf(`the answer is not {"cloudProvider": true or false, "profileProvider": true or false}: %w`, err)
	}
	return c, nil
}

// decodeAttributes reads an object of resource.k8s.io/v1 DeviceAttributes by
// their names. One that is wrong is left out with a reason, and costs no other.
func decodeAttributes(text []byte) (map[string]model.Attribute, []string, error) {
	if isEmptyJSON(text) {
		return nil, nil, nil
	}
	var raw map[string]json.RawMessage
	strict, err := kjson.UnmarshalStrict(text, &raw)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, nil, fmt.Errorf("the answer is no object of attributes: %w", err)
	}
	attributes := map[string]model.Attribute{}
	var omitted []string
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		a, err := decodeAttribute(raw[name])
		if err != nil {
			omitted = append(omitted, fmt.Sprintf("attribute %.80q: %v", name, err))
			continue
		}
		attributes[name] = a
	}
	return attributes, omitted, nil
}

// decodeAttribute takes the kinds of values that a NIC's attributes have.
func decodeAttribute(text []byte) (model.Attribute, error) {
	var v struct {
		String *string `json:"string"`
		Int    *int64  `json:"int"`
		Bool   *bool   `json:"bool"`
	}
	strict, err := kjson.UnmarshalStrict(text, &v)
	if err = errors.Join(append(strict, err)...); err != nil {
		return model.Attribute{}, fmt.Errorf(`want {"string": TEXT}, {"int": NUMBER} or {"bool": true or false}: %w`, err)
	}
	a := model.Attribute{Text: v.String, Number: v.Int, Flag: v.Bool}
	if set := len(slices.DeleteFunc([]bool{a.Text != nil, a.Number != nil, a.Flag != nil}, func(is bool) bool { return !is })); set != 1 {
		return model.Attribute{}, fmt.Errorf("has %d values, want one of string, int and bool", set)
	}
	return a, nil
}

// isEmptyJSON is true of what says nothing: no text, null, or an object
// without fields.
func isEmptyJSON(text []byte) bool {
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return len(bytes.TrimSpace(text)) == 0
	}
	return compact.String() == "{}" || compact.String() == "null"
}
