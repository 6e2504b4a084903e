// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package dcb reads what an interface's driver says of data centre bridging (DCBNL,
// include/uapi/linux/dcbnl.h): which priorities have flow control, and which priority the
// packets of a DSCP have. It changes nothing. What is right of it the doctor says.
package dcb

// Settings are those of one interface. What the driver does not tell is nil.
type Settings struct {
	// FlowControl has a bit for each priority with flow control (PFC).
	FlowControl *uint8
	// DSCP are the priorities by DSCP, as they are in the table.
	DSCP []Priority
}

// Priority is that of the packets with a DSCP.
type Priority struct {
	DSCP     uint16
	Priority uint8
}
