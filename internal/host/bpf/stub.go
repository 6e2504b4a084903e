// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package bpf finds the eBPF programs on a link, takes them off and puts them
// back.
package bpf

import "plumbline.dev/plumbline/internal/host/rtnl"

type Kind string

const TC Kind = "tc"

type Attachment struct {
	Kind        Kind
	Direction   string
	Program     uint32
	ProgramName string
}

func (a Attachment) String() string { return string(a.Kind) }

type Store struct{ Dir string }

func List(ns int, c *rtnl.Conn, i int, fs string) ([]Attachment, error)   { return nil, nil }
func (s Store) Hold(k string, l []Attachment) ([]Attachment, error)       { return l, nil }
func Detach(ns int, c *rtnl.Conn, i int, l []Attachment) error            { return nil }
func (s Store) Restore(ns int, c *rtnl.Conn, i int, l []Attachment) error { return nil }
func (s Store) Release(k string) error                                    { return nil }
