// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS with the plugins that the lab's clusters use: all of them
// bring the clients of every cloud.
package main

import (
	_ "github.com/coredns/coredns/core/dnsserver" // the kind of server
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() { coremain.Run() }
