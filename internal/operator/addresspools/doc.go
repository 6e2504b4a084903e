// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package addresspools carves a block of every NetworkAddressPool for each node that is to
// have one. It gives no addresses: agents do, out of their blocks. Two pools that overlap get
// no blocks of what both have, the younger one none at all.
//
// A block's number is in its name, so that the API server itself refuses to give one twice,
// whoever asks and however old what he knows. A block that is deleted stays until its node's
// agent says that no claim has an address of it; where the node has gone for good, until no
// claim is allocated there.
package addresspools
