// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package leastprivilege

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// ShippedRules finds what an account may do in a namespace, in a stream of manifests as
// the chart renders them: the rules of its ClusterRole, and of its Role where that is of
// the namespace. Both are called as the account.
func ShippedRules(manifests []byte, account, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	found := 0
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		var role rbacv1.Role // a ClusterRole has the same fields that count here
		if err := yaml.Unmarshal(document, &role); err != nil {
			continue // of another kind
		}
		switch {
		case role.Name != account:
		case role.Kind == "ClusterRole":
			found++
			rules = append(rules, role.Rules...)
		case role.Kind == "Role" && role.Namespace == namespace:
			rules = append(rules, role.Rules...)
		}
	}
	if found != 1 {
		return nil, fmt.Errorf("find ClusterRole %s: %d in the manifests, want 1", account, found)
	}
	return rules, nil
}
