// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package claim is the claim commands: they check the parameters of claims, and
// show what comes of them. Both do it by the driver's own code, for manifests
// and for what is in a cluster. What the driver does to a NIC is not known here.
package claim
