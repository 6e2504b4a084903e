// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"net"
)

// Ports are the TCP ports of the host's loopback that a cluster listens on.
type Ports struct {
	Etcd, EtcdPeer, API, ControllerManager, Scheduler int
}

// FreePorts returns n different ports of the loopback that nobody listens on.
// They are all held before any is let go, so that none comes twice.
func FreePorts(n int) (ports []int, err error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			err = errors.Join(err, l.Close())
		}
	}()
	for range n {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		held = append(held, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func choosePorts() (Ports, error) {
	p, err := FreePorts(5)
	if err != nil {
		return Ports{}, err
	}
	return Ports{Etcd: p[0], EtcdPeer: p[1], API: p[2], ControllerManager: p[3], Scheduler: p[4]}, nil
}
