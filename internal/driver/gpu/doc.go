// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package gpu is the driver gpu.nvidia.com where no vendor's driver serves it:
// in simulated mode every GPU of a machine file is a real PCI function of
// another kind at the GPU's address, and a claim gets that function's device
// file.
//
//	claim ─► Plan ─► Record ─► CDI file ─► container
//
// Stand-ins say that they are: model.GPU.Simulated is set on each. Beside real
// NVIDIA hardware nothing is simulated. Which GPUs there are is inventory's
// business.
package gpu
