// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package addresspools carves a block of every NetworkAddressPool for each node that is to
// have one. It gives no addresses: agents do, out of their blocks. A pool that overlaps an
// older one, or networks of the cluster itself, gets no more blocks.
//
// A block's number is in its name, so that the API server itself refuses to give one twice,
// whoever asks and however old what he knows; which addresses blocks of other pools have is
// asked of it before one is made. A block that is deleted stays until its node's agent says
// that no claim has an address of it; where the node has gone for good, or has no agent any
// more, until no claim is allocated there.
package addresspools
