// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package deviceplugins asks the kubelet which devices its device plugins offer and which
// containers have them, by its pod-resources API, and finds the PCI functions that these
// are. It is asked on request alone: nothing is kept, and nothing is written.
//
//	look.go    the kubelet's answer
//	locate.go  from a device ID to a PCI function
//	handler.go the report, on request
//
// The form of the report is internal/deviceplugin's.
package deviceplugins
