// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package policies has the node of the lab's cluster follow HostPolicies that want what an
// agent may not do: modules, settings of the kernel, registers of PCI functions. Then a
// container loads a driver of NICs there, where nothing hangs from it. What it compares is
// what the node's own files say, before and after.
package policies
