// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// DryRunClaim is a claim as the API server would store it, which drops fields whose
// feature gates are off without a word. Nothing is stored. It takes the right to create
// claims in the namespace.
func DryRunClaim(ctx context.Context, client kubernetes.Interface, namespace string, spec *resourceapi.ResourceClaimSpec) (*resourceapi.ResourceClaim, error) {
	// Of a name of its own, so that no claim that is there is in the way.
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{GenerateName: "plumbline-dry-run-", Namespace: namespace}, Spec: *spec.DeepCopy()}
	stored, err := client.ResourceV1().ResourceClaims(namespace).Create(ctx, claim, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return nil, fmt.Errorf("create a ResourceClaim in %s as a dry run: %w", namespace, err)
	}
	return stored, nil
}
