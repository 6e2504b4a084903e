// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/status"
	"plumbline.dev/plumbline/internal/devicemetadata"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/model"
)

// describe writes what containers are told of the claim's devices: what is published of
// them, and what the driver decided. What is known of a NIC in the pod comes when it is
// there. The claim is locked.
func (p *Preparer) describe(c driver.Claim, r driver.Record) error {
	if p.Metadata == nil {
		return nil
	}
	var decided []map[string]model.Attribute
	if p.Describer != nil {
		var err error
		if decided, err = p.Describer.Describe(r); err != nil {
			return err
		}
	}
	published := p.Published()
	told := make([]devicemetadata.Told, len(r.Devices))
	for i, d := range r.Devices {
		all := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
		if at := slices.IndexFunc(published, func(o resourceapi.Device) bool { return o.Name == d.Device }); at >= 0 {
			maps.Copy(all, published[at].Attributes)
		}
		if i < len(decided) {
			maps.Copy(all, attributesOf(decided[i]))
		}
		told[i].Attributes = all
	}
	return p.Metadata.Write(r, podClaimOf(c), told)
}

// podClaimOf is what the pod calls a claim that was made from a template. Whoever makes
// claims writes annotations as they like, and this one becomes a path in containers: what no
// pod can call a claim is not taken.
func podClaimOf(c driver.Claim) *string {
	if c.Object == nil {
		return nil
	}
	name, ok := c.Object.Annotations[resourceapi.PodResourceClaimAnnotation]
	if !ok || len(validation.IsDNS1123Label(name)) > 0 {
		return nil
	}
	return &name
}

// DescribeAttached tells the containers that are made from now on what Attach found in
// the pod. The claim is locked.
func (p *Preparer) DescribeAttached(r driver.Record, found []driver.DeviceStatus) error {
	if p.Metadata == nil {
		return nil
	}
	late := make([]devicemetadata.Told, len(r.Devices))
	for i, d := range r.Devices {
		at := slices.IndexFunc(found, func(s driver.DeviceStatus) bool { return s.Device == d.Device })
		if at < 0 {
			continue
		}
		s := found[at]
		late[i].Attributes = attributesOf(s.Attributes)
		if s.InterfaceName != "" || s.HardwareAddress != "" || len(s.IPs) > 0 {
			late[i].Network = status.NetworkData(&s)
		}
	}
	return p.Metadata.Update(r, late)
}

func attributesOf(all map[string]model.Attribute) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	out := make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, len(all))
	for name, a := range all {
		out[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{StringValue: a.Text, IntValue: a.Number, BoolValue: a.Flag}
	}
	return out
}

// withMetadata adds the mounts of the claim's metadata, where there is any. The journal
// does not have them: where the files lie is this agent's business.
func (p *Preparer) withMetadata(r driver.Record) driver.Record {
	if p.Metadata == nil || p.WithoutMetadata {
		return r
	}
	mounts, err := p.Metadata.Mounts(r)
	if err != nil {
		klog.Background().Error(err, "containers are not told all of their devices", "driver", r.Driver, "claim", r.Claim.String())
	}
	r.Devices = slices.Clone(r.Devices)
	for i, m := range mounts {
		edits := &r.Devices[i].Edits
		edits.Mounts = append(slices.Clone(edits.Mounts), m)
	}
	return r
}

// PlaceFile puts a file for containers of a record's claim on the host, for as long as
// the claim is prepared, and returns its path. The claim is locked.
func (p *Preparer) PlaceFile(r driver.Record, name string, content []byte) (string, error) {
	if p.Metadata == nil {
		return "", errors.New("this agent keeps no files for containers")
	}
	return p.Metadata.Place(r, name, content)
}

// removeFiles takes away what containers of a claim are made from.
func (p *Preparer) removeFiles(uid types.UID) error {
	if err := p.CDI.Remove(p.Name(), uid); err != nil {
		return err
	}
	if p.Metadata == nil {
		return nil
	}
	return p.Metadata.Remove(p.Name(), uid) // last: until then it is mounted
}

// describedClaims lists the claims of which containers are told something.
func (p *Preparer) describedClaims() ([]types.UID, error) {
	if p.Metadata == nil {
		return nil, nil
	}
	return p.Metadata.Claims(p.Name())
}

// sweepMetadata removes what claims have left of which there is no record.
func (p *Preparer) sweepMetadata(told []types.UID, known map[types.UID]bool) error {
	for _, uid := range told {
		if known[uid] {
			continue
		}
		if err := p.Metadata.Remove(p.Name(), uid); err != nil {
			return fmt.Errorf("of a claim that is not prepared: %w", err)
		}
	}
	return nil
}
