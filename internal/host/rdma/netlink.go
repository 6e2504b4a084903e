// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/host/rtnl"
)

// ErrNone says that the kernel has no RDMA, or has not loaded it.
var ErrNone = errors.New("this kernel has no RDMA")

// Mode is whether network namespaces share RDMA devices.
type Mode string

// The modes.
const (
	Shared    Mode = "shared"
	Exclusive Mode = "exclusive"
)

// Device is an RDMA device of a namespace.
type Device struct {
	Name string
	// Index is the kernel's number of it.
	Index uint32
	// Kind is rxe or siw for a device that is made of software, which ends when
	// the interface below it moves; empty for hardware.
	Kind string
}

// Values that the library does not name.
const (
	cmdGetPort         = 5  // RDMA_NLDEV_CMD_PORT_GET
	cmdGetCharDevice   = 15 // RDMA_NLDEV_CMD_GET_CHARDEV
	attrNetDevIndex    = 50 // RDMA_NLDEV_ATTR_NDEV_INDEX
	attrCharDeviceType = 69 // RDMA_NLDEV_ATTR_CHARDEV_TYPE
	attrDriverID       = 73 // RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID
	// Drivers (include/uapi/rdma/ib_user_ioctl_verbs.h).
	driverRXE = 14
	driverSIW = 18

	replySeconds = 60
)

// NamespaceMode reads the mode, which is the same for all namespaces. The error
// is ErrNone where there is no RDMA.
func NamespaceMode(namespace int) (Mode, error) {
	c, err := dial(namespace)
	if err != nil {
		return "", fmt.Errorf("read RDMA namespace mode: %w", err)
	}
	defer c.close()
	answers, err := c.execute(nl.RDMA_NLDEV_CMD_SYS_GET, unix.NLM_F_ACK)
	if err == nil && len(answers) == 0 {
		err = errors.New("no answer")
	}
	if err != nil {
		return "", fmt.Errorf("read RDMA namespace mode: %w", err)
	}
	return parseMode(answers[0])
}

func parseMode(body []byte) (Mode, error) {
	mode := Mode("")
	err := rtnl.EachAttribute(body, func(kind uint16, value []byte) error {
		if kind != nl.RDMA_NLDEV_SYS_ATTR_NETNS_MODE || len(value) != 1 {
			return nil
		}
		mode = Exclusive
		if value[0] == 1 {
			mode = Shared
		}
		return nil
	})
	if err == nil && mode == "" {
		err = errors.New("the kernel does not say")
	}
	if err != nil {
		return "", fmt.Errorf("read RDMA namespace mode: %w", err)
	}
	return mode, nil
}

// Devices lists the RDMA devices that a namespace sees; none where the kernel
// has no RDMA.
func Devices(namespace int) ([]Device, error) {
	c, err := dial(namespace)
	if errors.Is(err, ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list RDMA devices: %w", err)
	}
	defer c.close()
	return c.devices()
}

func (c *conn) devices() ([]Device, error) {
	answers, err := c.execute(nl.RDMA_NLDEV_CMD_GET, unix.NLM_F_DUMP)
	if err != nil {
		return nil, fmt.Errorf("list RDMA devices: %w", err)
	}
	var list []Device
	for _, body := range answers {
		d, err := parseDevice(body)
		if err != nil {
			return nil, fmt.Errorf("list RDMA devices: %w", err)
		}
		if d.Kind, err = c.kind(d); err != nil {
			return nil, fmt.Errorf("list RDMA devices: driver of %s: %w", d.Name, err)
		}
		list = append(list, d)
	}
	return list, nil
}

// On lists the RDMA devices that have a port on an interface of the namespace: the kernel
// names interfaces of the asker's namespace alone (drivers/infiniband/core/nldev.c,
// fill_port_info), and those by an index, which no other one shares.
func On(namespace, ifindex int) ([]Device, error) {
	c, err := dial(namespace)
	if errors.Is(err, ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list RDMA devices on interface %d: %w", ifindex, err)
	}
	defer c.close()
	devices, err := c.devices()
	if err != nil {
		return nil, err
	}
	var on []Device
	for _, d := range devices {
		indexes, err := c.interfaces(d)
		if err != nil {
			return nil, fmt.Errorf("list RDMA devices on interface %d: ports of %s: %w", ifindex, d.Name, err)
		}
		if slices.Contains(indexes, ifindex) {
			on = append(on, d)
		}
	}
	return on, nil
}

// interfaces are the indexes of the interfaces that a device's ports are on.
func (c *conn) interfaces(d Device) ([]int, error) {
	answers, err := c.execute(cmdGetPort, unix.NLM_F_DUMP, nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(d.Index)))
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) {
		return nil, nil // gone meanwhile: nldev.c answers EINVAL for an unknown index
	}
	if err != nil {
		return nil, err
	}
	var indexes []int
	for _, body := range answers {
		index, err := parsePort(body)
		if err != nil {
			return nil, err
		}
		if index > 0 {
			indexes = append(indexes, index)
		}
	}
	return indexes, nil
}

// parsePort reads the index of a port's interface; 0 where it has none in the namespace.
func parsePort(body []byte) (index int, err error) {
	err = rtnl.EachAttribute(body, func(kind uint16, value []byte) error {
		if kind == attrNetDevIndex && len(value) == 4 {
			index = int(int32(binary.NativeEndian.Uint32(value))) //nolint:gosec // an ifindex is an int of 32 bits
		}
		return nil
	})
	return max(index, 0), err
}

func parseDevice(body []byte) (Device, error) {
	var d Device
	err := rtnl.EachAttribute(body, func(kind uint16, value []byte) error {
		switch {
		case kind == nl.RDMA_NLDEV_ATTR_DEV_NAME:
			d.Name = unix.ByteSliceToString(value)
		case kind == nl.RDMA_NLDEV_ATTR_DEV_INDEX && len(value) == 4:
			d.Index = binary.NativeEndian.Uint32(value)
		}
		return nil
	})
	if err == nil && d.Name == "" {
		err = errors.New("a device without a name")
	}
	return d, err
}

// kind reads the driver of a device's user verbs, by which alone netlink tells software
// devices from hardware.
func (c *conn) kind(d Device) (string, error) {
	answers, err := c.execute(cmdGetCharDevice, 0,
		nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(d.Index)),
		nl.NewRtAttr(attrCharDeviceType, nl.ZeroTerminated("uverbs")))
	// Without the module ib_uverbs there is none.
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return "", nil
	}
	if err != nil || len(answers) == 0 {
		return "", err
	}
	return parseKind(answers[0])
}

func parseKind(body []byte) (kind string, err error) {
	err = rtnl.EachAttribute(body, func(attribute uint16, value []byte) error {
		if attribute != attrDriverID || len(value) < 4 {
			return nil
		}
		switch binary.NativeEndian.Uint32(value) {
		case driverRXE:
			kind = "rxe"
		case driverSIW:
			kind = "siw"
		}
		return nil
	})
	return kind, err
}

type conn struct {
	sockets map[int]*nl.SocketHandle
}

func dial(namespace int) (*conn, error) {
	var s *nl.NetlinkSocket
	err := netns.Do(namespace, func() (err error) {
		s, err = nl.Subscribe(unix.NETLINK_RDMA)
		return err
	})
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("open RDMA netlink socket: %w", err)
	}
	limit := &unix.Timeval{Sec: replySeconds}
	if err := errors.Join(s.SetExtAck(true), s.SetReceiveTimeout(limit), s.SetSendTimeout(limit)); err != nil {
		s.Close()
		return nil, fmt.Errorf("open RDMA netlink socket: %w", err)
	}
	return &conn{sockets: map[int]*nl.SocketHandle{unix.NETLINK_RDMA: {Socket: s}}}, nil
}

func (c *conn) close() { c.sockets[unix.NETLINK_RDMA].Close() }

func (c *conn) execute(command, flags int, attributes ...*nl.RtAttr) ([][]byte, error) {
	r := nl.NewNetlinkRequest(nl.RDMA_NL_NLDEV<<nl.RDMA_NL_GET_CLIENT_SHIFT|command, flags)
	r.Sockets = c.sockets
	for _, a := range attributes {
		r.AddData(a)
	}
	return r.Execute(unix.NETLINK_RDMA, 0)
}
