// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// conditionAligned says whether the claim's pods are as the claim says, by what
// the kernel says.
const conditionAligned = "Aligned"

// Alignment is what verification says of a claim.
type Alignment struct {
	// Status is True, False or Unknown.
	Status metav1.ConditionStatus
	// Reason is one word.
	Reason, Message string
	// Since is when it was found to be so; figures in the message may be newer.
	Since time.Time
}

// SetAlignment replaces what the entries of our drivers say of a claim's
// alignment; nil takes it away. Of a claim that is none of ours nothing is
// written.
func (w *Writer) SetAlignment(claim types.UID, a *Alignment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a == nil {
		delete(w.alignment, claim)
	} else {
		w.alignment[claim] = *a
	}
	for key, r := range w.reports {
		if key.uid == claim {
			w.want(key, r)
		}
	}
}

func aligned(a Alignment) metav1.Condition {
	return metav1.Condition{
		Type: conditionAligned, Status: a.Status, Reason: a.Reason, Message: within(maxMessage, a.Message),
		LastTransitionTime: atSeconds(a.Since),
	}
}
