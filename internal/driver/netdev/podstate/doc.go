// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package podstate is a network interface as a pod shall see it: made from a
// configuration and the interface on the host, applied in the pod's namespace,
// and taken away again.
//
//	from_config.go  configuration to a State, or a refusal
//	apply.go        a State to the pod, and the address of a DHCP lease
//	undo.go         what apply.go made beside the interface, removed
//
// Everything here happens in the pod's namespace. What belongs to the device,
// and what takes time, the driver stages before.
package podstate
