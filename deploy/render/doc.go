// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package render turns plumbline's Helm chart into manifests, with Helm's own
// engine, for whoever installs without the helm command: the lab, the
// operator, and the goldens of this repository. It talks to no cluster, so the
// chart's look-ups find nothing: every device class asked for is rendered, and
// the caller creates only what is absent.
//
// It is a package of its own because Helm's engine brings some fifteen modules
// that nothing else needs.
package render

//go:generate go test . -run TestGolden -update
