// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package leave takes plumbline off a node after its agent has gone: what agents keep on
// the host and what killed ones left. It changes nothing while an agent lives or a claim
// is prepared, and nothing of pods, links or control groups: undoing claims is the
// drivers' work, which an agent does.
package leave
