// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command nodeprogram is the program that the test of a node runs inside it: it
// reads a word from the address of the API server and serves it at the kubelet's
// address, with the host name, the parent process and the links that it sees.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(api, kubelet string) error {
	conn, err := net.Dial("tcp4", api)
	if err != nil {
		return err
	}
	word, err := io.ReadAll(conn)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp4", kubelet)
	if err != nil {
		return err
	}
	for {
		asks, err := l.Accept()
		if err != nil {
			return err
		}
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		links, err := net.Interfaces()
		if err != nil {
			return err
		}
		var names []string
		for _, link := range links {
			names = append(names, link.Name)
		}
		fmt.Fprintf(asks, "%s on %s, parent %d, links %s", word, host, os.Getppid(), strings.Join(names, " "))
		if err := asks.Close(); err != nil {
			return err
		}
	}
}
