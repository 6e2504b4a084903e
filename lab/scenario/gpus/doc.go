// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package gpus breaks what NVIDIA's DRA driver stands on while pods hold its GPUs: the
// driver is killed and taken away, a GPU falls ill, another one is lost. What it wants is
// that pods keep what they have, that what waits is told why, and that all comes back.
// Then it has the driver prepare parts of GPUs: shares, and MIG devices. At last NVIDIA's
// device plugin gives the same GPUs away, and each of plumbline's commands is to tell so.
package gpus
