// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package azure asks the metadata service of an Azure virtual machine. What the
// answers mean, and how they are spelled in a ResourceSlice, lives here; when they
// are asked for does not.
package azure
