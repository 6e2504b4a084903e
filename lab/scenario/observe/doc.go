// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package observe has agents that serve nothing look at pods whose NICs DRANET gave them,
// and asks every command that reads a cluster about these pods: on a control plane that is
// older than what plumbline serves devices on, too.
package observe
