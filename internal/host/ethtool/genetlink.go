// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/rtnl"
)

// kernel reads and sets settings, by an interface's name. A test has a fake one, with
// settings that no driver of its machine has.
type kernel interface {
	// get sends a message of ethtool's netlink family, and returns the attributes
	// of the answer (Documentation/networking/ethtool-netlink.rst).
	get(command uint8, ifname string) ([]byte, error)
	// set sends a message with attributes.
	set(command uint8, ifname string, attributes []*nl.RtAttr) error
	// ioctl makes a request that reads and changes data: SIOCETHTOOL, for which
	// data starts with the command, or another one of a device.
	ioctl(request uint, ifname string, data []byte) error
}

// socket is the kernel of one network namespace. A netlink socket takes the
// ioctls of any (net/socket.c, sock_do_ioctl).
type socket struct {
	*nl.SocketHandle
	// family is the number of ethtool's netlink family; 0 where there is none.
	family uint16
}

// replySeconds bounds a request, during which a driver may reset its device.
const replySeconds = 60

// openSocket opens one in the calling thread's namespace.
func openSocket() (*socket, error) {
	s, err := nl.Subscribe(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, err
	}
	limit := &unix.Timeval{Sec: replySeconds}
	if err := errors.Join(s.SetExtAck(true), s.SetReceiveTimeout(limit), s.SetSendTimeout(limit)); err != nil {
		s.Close()
		return nil, err
	}
	k := &socket{SocketHandle: &nl.SocketHandle{Socket: s}}
	if k.family, err = k.resolve(unix.ETHTOOL_GENL_NAME); err != nil {
		s.Close()
		return nil, err
	}
	return k, nil
}

// resolve is the number of a family of generic netlink; 0 where there is none.
func (k *socket) resolve(name string) (uint16, error) {
	answers, err := k.execute(unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY, 0,
		nl.NewRtAttr(unix.CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated(name)))
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look up netlink family %s: %w", name, err)
	}
	var family uint16
	err = rtnl.EachAttribute(answers, func(kind uint16, value []byte) error {
		if kind == unix.CTRL_ATTR_FAMILY_ID && len(value) == 2 {
			family = binary.NativeEndian.Uint16(value)
		}
		return nil
	})
	return family, err
}

func (k *socket) get(command uint8, ifname string) ([]byte, error) {
	return k.ethtool(command, 0, header(ifname))
}

func (k *socket) set(command uint8, ifname string, attributes []*nl.RtAttr) error {
	_, err := k.ethtool(command, unix.NLM_F_ACK, append([]*nl.RtAttr{header(ifname)}, attributes...)...)
	return err
}

func (k *socket) ethtool(command uint8, flags int, attributes ...*nl.RtAttr) ([]byte, error) {
	if k.family == 0 {
		return nil, unix.EOPNOTSUPP
	}
	return k.execute(int(k.family), command, flags, attributes...)
}

// header is the first attribute of every message (ETHTOOL_A_*_HEADER).
func header(ifname string) *nl.RtAttr {
	h := nl.NewRtAttr(1|unix.NLA_F_NESTED, nil)
	h.AddRtAttr(unix.ETHTOOL_A_HEADER_DEV_NAME, nl.ZeroTerminated(ifname))
	h.AddRtAttr(unix.ETHTOOL_A_HEADER_FLAGS, nl.Uint32Attr(unix.ETHTOOL_FLAG_COMPACT_BITSETS))
	return h
}

// execute returns the attributes of the answer, nil where it is an acknowledgement.
func (k *socket) execute(family int, command uint8, flags int, attributes ...*nl.RtAttr) ([]byte, error) {
	r := nl.NewNetlinkRequest(family, flags)
	r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_GENERIC: k.SocketHandle}
	r.AddData(genlHeader{command, unix.ETHTOOL_GENL_VERSION})
	for _, a := range attributes {
		r.AddData(a)
	}
	answers, err := r.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil || len(answers) == 0 {
		return nil, err
	}
	if len(answers[0]) < nl.SizeofGenlmsg {
		return nil, fmt.Errorf("an answer of %d bytes", len(answers[0]))
	}
	return answers[0][nl.SizeofGenlmsg:], nil
}

// genlHeader is struct genlmsghdr: command, version, and two reserved bytes, which
// the kernel may want to be zero (net/netlink/genetlink.c, genl_header_check). The
// library's type has the first two only, and sends what lies behind them in memory.
type genlHeader [nl.SizeofGenlmsg]byte

// Len is the length in bytes.
func (h genlHeader) Len() int { return len(h) }

// Serialize is the bytes.
func (h genlHeader) Serialize() []byte { return h[:] }

// request is struct ifreq with a pointer (netdevice(7)).
type request struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

func (k *socket) ioctl(number uint, ifname string, data []byte) error {
	var r request
	copy(r.name[:unix.IFNAMSIZ-1], ifname)
	// The kernel sees an address only, which the collector must not free.
	r.data = unsafe.Pointer(unsafe.SliceData(data))
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(k.Socket.GetFd()), uintptr(number), uintptr(unsafe.Pointer(&r)))
	runtime.KeepAlive(data)
	if errno != 0 {
		return errno
	}
	return nil
}
