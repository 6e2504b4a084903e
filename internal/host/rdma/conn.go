// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"plumbline.dev/plumbline/internal/host/netns"
)

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
