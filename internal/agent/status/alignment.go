// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/kube"
)

// By what the kernel says: conditionAsClaimed says whether the claim's pod is as
// the claim says, conditionAligned whether its things are as near to each other as
// the machine could have given them.
const (
	conditionAsClaimed = "AsClaimed"
	conditionAligned   = "Aligned"
)

// Answer is what one of the conditions says.
type Answer struct {
	// Status is True, False or Unknown.
	Status metav1.ConditionStatus
	// Reason is one word.
	Reason, Message string
}

// Alignment is what verification says of a claim.
type Alignment struct {
	AsClaimed, Aligned Answer
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

// conditions are both answers.
func (a Alignment) conditions() []metav1.Condition {
	condition := func(kind string, answer Answer) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: answer.Status, Reason: answer.Reason, Message: kube.BoundedText(maxMessage, answer.Message),
			LastTransitionTime: atSeconds(a.Since),
		}
	}
	return []metav1.Condition{condition(conditionAsClaimed, a.AsClaimed), condition(conditionAligned, a.Aligned)}
}
