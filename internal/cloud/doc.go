// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cloud asks the node's cloud what its NICs are connected to, and keeps
// the answers: attributes for the ResourceSlice, and layers of parameters below
// those of device class and claim. What a provider's protocol looks like lives
// in a package below this one, each; nothing here knows any.
//
// The Cache looks up in the background, answers from memory, and keeps its answers
// while the provider is away. Only preparing a claim may wait for a cloud, where going on would leave out what the claim asks for.
package cloud
