// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pcie

import "strings"

// Device is one -device argument.
type Device struct {
	// Driver is QEMU's name of the device model.
	Driver string
	// ID names it for other devices.
	ID string
	// Props are its further properties, in the order they are written.
	Props []Prop
}

// Prop is one property of a device.
type Prop struct{ Key, Value string }

// String is the value of the -device argument.
func (d Device) String() string {
	var b strings.Builder
	b.WriteString(d.Driver)
	if d.ID != "" {
		b.WriteString(",id=" + d.ID)
	}
	for _, p := range d.Props {
		// A comma ends a value unless doubled (QEMU, util/keyval.c).
		b.WriteString("," + p.Key + "=" + strings.ReplaceAll(p.Value, ",", ",,"))
	}
	return b.String()
}

func (d *Device) set(key, value string) { d.Props = append(d.Props, Prop{key, value}) }
