// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package release makes what users install: the image, the chart that names it by
// its digest, the command line tools, and what goes with them. The same commit makes
// the same bytes, on any machine with the same Go. It publishes nothing but an image
// that somebody asks to be pushed.
package release
