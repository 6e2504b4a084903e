// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package ociimage packs container images from files, without a registry and
// without a container engine. The same files make the same image, byte for byte,
// whoever packs them. What lies in an image, and who runs it, is not known here.
package ociimage
