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

// ShippedRole finds the one ClusterRole in a stream of manifests, as the chart
// renders them.
func ShippedRole(manifests []byte) (rbacv1.ClusterRole, error) {
	var found []rbacv1.ClusterRole
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return rbacv1.ClusterRole{}, fmt.Errorf("read manifests: %w", err)
		}
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal(document, &role.TypeMeta); err != nil {
			return rbacv1.ClusterRole{}, fmt.Errorf("read manifests: %w", err)
		}
		if role.Kind != "ClusterRole" {
			continue
		}
		if err := yaml.UnmarshalStrict(document, &role); err != nil {
			return rbacv1.ClusterRole{}, fmt.Errorf("decode ClusterRole: %w", err)
		}
		found = append(found, role)
	}
	if len(found) != 1 {
		return rbacv1.ClusterRole{}, fmt.Errorf("find the agent's ClusterRole: %d in the manifests, want 1", len(found))
	}
	return found[0], nil
}
