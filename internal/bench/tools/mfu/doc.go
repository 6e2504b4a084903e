// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package mfu reads the line MFU_RESULT that a training benchmark prints, and says what
// share of its GPU's peak it reached (model FLOPs utilisation). It does not train.
//
// The model is a stack of square linear layers without attention: a step of one rank is
// 6·batch·hidden²·layers floating-point operations, two for each weight and row forward and
// four backward. The peak is that of the precision, dense, of one GPU, by the exact name
// under which its driver has it: a part of a name would take GB200 for B200.
package mfu
