// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook speaks to a program of the administrator's that stands in for
// a cloud: GET /health, POST /GetDeviceAttributes, /GetDeviceConfig,
// /GetProfileConfig and /ReleaseProfileConfig. The protocol lives here, so that
// programs written for the driver that invented it serve this one.
package webhook
