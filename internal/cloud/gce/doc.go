// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package gce asks the metadata server of a Google Compute Engine instance, by
// Google's own client library. What the answers mean, and how they are spelled
// in a ResourceSlice, lives here; when they are asked for does not.
package gce
