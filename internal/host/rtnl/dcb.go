// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Of a request for data centre bridging (include/uapi/linux/dcbnl.h).
const (
	dcbIEEEGet  = 21 // DCB_CMD_IEEE_GET
	dcbAttrName = 1  // DCB_ATTR_IFNAME
)

// dcbHeader is struct dcbmsg.
type dcbHeader struct{ command uint8 }

func (dcbHeader) Len() int            { return 4 }
func (h dcbHeader) Serialize() []byte { return []byte{unix.AF_UNSPEC, h.command, 0, 0} }

// DCB is the body of the kernel's answer about an interface's data centre bridging, as
// IEEE 802.1Qaz has it. It is unix.EOPNOTSUPP where its driver has none.
func (c *Conn) DCB(name string) ([]byte, error) {
	bodies, err := c.execute(c.request(unix.RTM_GETDCB, 0, dcbHeader{dcbIEEEGet}, nl.NewRtAttr(dcbAttrName, nl.ZeroTerminated(name))), unix.RTM_GETDCB)
	if err == nil && len(bodies) != 1 {
		err = fmt.Errorf("%d answers, want one", len(bodies))
	}
	if err != nil {
		return nil, err
	}
	return bodies[0], nil
}
