// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package unixhttp is a program's own socket: HTTP on a file that only root of the
// same pod reaches. Probes and people ask it by the program's own commands
// (healthz, metrics). The agent lives in the host's network, so what it says
// without being asked for a password must not be on a port.
//
// What is answered is the caller's.
package unixhttp
