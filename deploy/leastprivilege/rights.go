// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package leastprivilege

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// everyone are the API groups in which every authenticated account may ask
// about itself, and the trust anchors every account may read: the cluster's
// own roles system:basic-user and system:cluster-trust-bundle-discovery.
var everyone = []string{
	"authentication.k8s.io/*",
	"authorization.k8s.io/*",
	"certificates.k8s.io/clustertrustbundles",
}

// UnexpectedRights asks the API server, as the subject's agent, what it may do
// in a namespace, and returns each right that the shipped rules do not
// give, as "verb group/resource name". An empty result means that nobody
// granted the agent anything beside the chart.
func UnexpectedRights(ctx context.Context, admin *rest.Config, subject Subject, shipped []rbacv1.PolicyRule, namespace string) ([]string, error) {
	configs, err := identities(ctx, admin, subject)
	if err != nil {
		return nil, err
	}
	agent, err := kubernetes.NewForConfig(configs[""])
	if err != nil {
		return nil, fmt.Errorf("make agent's client: %w", err)
	}
	review, err := agent.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("review the agent's rights in namespace %s: %w", namespace, err)
	}
	granted := map[string]bool{}
	for _, rule := range shipped {
		for _, right := range rights(rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames) {
			granted[right] = true
		}
	}
	var unexpected []string
	for _, rule := range review.Status.ResourceRules {
		for _, right := range rights(rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames) {
			if !granted[right] {
				unexpected = append(unexpected, right)
			}
		}
	}
	slices.Sort(unexpected)
	return slices.Compact(unexpected), nil
}

// rights multiplies a rule out, so that rules split or joined differently
// compare equal.
func rights(verbs, groups, resources, names []string) []string {
	if len(names) == 0 {
		names = []string{""}
	}
	var all []string
	for _, group := range groups {
		for _, resource := range resources {
			if slices.Contains(everyone, group+"/*") || slices.Contains(everyone, group+"/"+resource) {
				continue
			}
			for _, verb := range verbs {
				for _, name := range names {
					all = append(all, strings.TrimSpace(verb+" "+group+"/"+resource+" "+name))
				}
			}
		}
	}
	return all
}
