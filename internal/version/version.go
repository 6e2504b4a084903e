// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package version is the version that all programs of a build have.
package version

// Version is a release's, or says the commit ("0.1.0-dev.g964cbbb"); set by the linker
// (Makefile, internal/release).
var Version = "unknown"
