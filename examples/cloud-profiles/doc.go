// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command cloud-profiles is an example of a webhook (docs/clouds.md): it resolves profiles of
// claims for shares of NICs to addresses that follow from the host's. It imports the
// standard library alone, so that it can be taken from here and changed.
package main
