// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explainer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/internal/explain"
)

// confirmAtMost bounds the requests for one event.
const confirmAtMost = 10 * time.Second

// confirm asks the API server itself whether a pod still waits, for claims that
// are as they were judged: a watch may be behind, and a wrong event is worse than
// none.
func confirm(ctx context.Context, client kubernetes.Interface, s *explain.Subject) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, confirmAtMost)
	defer cancel()
	p, err := found(client.CoreV1().Pods(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{}))
	if err != nil {
		return false, fmt.Errorf("ask for pod %s/%s: %w", s.Namespace, s.Name, err)
	}
	if p == nil || p.UID != s.Pod.UID {
		return false, nil
	}
	if _, still := waits(p); !still {
		return false, nil
	}
	for i := range p.Spec.ResourceClaims {
		ref := &p.Spec.ResourceClaims[i]
		right := true
		var err error
		switch claim := claimOf(p, ref); {
		case claim != "":
			right, err = claimAsJudged(ctx, client, s, i, claim)
		case ref.ResourceClaimTemplateName != nil:
			right, err = templateAsJudged(ctx, client, s, i, *ref.ResourceClaimTemplateName)
		}
		if err != nil || !right {
			return false, err
		}
	}
	return true, nil
}

// claimOf is the name of a pod's claim, "" before it is made.
func claimOf(p *corev1.Pod, ref *corev1.PodResourceClaim) string {
	if ref.ResourceClaimName != nil {
		return *ref.ResourceClaimName
	}
	for _, made := range p.Status.ResourceClaimStatuses {
		if made.Name == ref.Name && made.ResourceClaimName != nil {
			return *made.ResourceClaimName
		}
	}
	return ""
}

func claimAsJudged(ctx context.Context, client kubernetes.Interface, s *explain.Subject, index int, name string) (bool, error) {
	c, err := found(client.ResourceV1().ResourceClaims(s.Namespace).Get(ctx, name, metav1.GetOptions{}))
	if err != nil {
		return false, fmt.Errorf("ask for ResourceClaim %s/%s: %w", s.Namespace, name, err)
	}
	if c == nil {
		return judgedAbsent(s, index), nil
	}
	judged := s.Claims
	if c.Status.Allocation != nil {
		judged = s.Allocated
	}
	return slices.ContainsFunc(judged, func(j *resourceapi.ResourceClaim) bool { return j.UID == c.UID }), nil
}

func templateAsJudged(ctx context.Context, client kubernetes.Interface, s *explain.Subject, index int, name string) (bool, error) {
	t, err := found(client.ResourceV1().ResourceClaimTemplates(s.Namespace).Get(ctx, name, metav1.GetOptions{}))
	if err != nil {
		return false, fmt.Errorf("ask for ResourceClaimTemplate %s/%s: %w", s.Namespace, name, err)
	}
	return (t == nil) == judgedAbsent(s, index), nil
}

// judgedAbsent says whether what a pod's reference names was missing.
func judgedAbsent(s *explain.Subject, index int) bool {
	field := fmt.Sprintf("spec.resourceClaims[%d]", index)
	return slices.ContainsFunc(s.Findings, func(f explain.Finding) bool {
		return f.Cause == explain.ObjectAbsent && (f.Field == field || strings.HasPrefix(f.Field, field+"."))
	})
}

// found is nil, without an error, where there is no object of the name.
func found[T any](object *T, err error) (*T, error) {
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return object, nil
}
