// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package cloud asks the node's cloud what its NICs are connected to, and keeps
// the answers: attributes for the ResourceSlice, and layers of parameters below
// those of device class and claim. What a provider's protocol looks like lives
// in a package below this one, each; nothing here knows any.
//
// Nobody waits for a cloud here. The Cache is asked in the background, answers
// from memory, and keeps what it knew when the provider is away. Only preparing
// a claim may wait, where going on would leave out what the claim asks for.
package cloud
