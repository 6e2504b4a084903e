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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// ShippedRole finds the ClusterRole of an account, which is called as the account,
// in a stream of manifests as the chart renders them.
func ShippedRole(manifests []byte, account string) (rbacv1.ClusterRole, error) {
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
		var about metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(document, &about); err != nil {
			return rbacv1.ClusterRole{}, fmt.Errorf("read manifests: %w", err)
		}
		if about.Kind != "ClusterRole" || about.Name != account {
			continue
		}
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(document, &role); err != nil {
			return rbacv1.ClusterRole{}, fmt.Errorf("decode ClusterRole: %w", err)
		}
		found = append(found, role)
	}
	if len(found) != 1 {
		return rbacv1.ClusterRole{}, fmt.Errorf("find ClusterRole %s: %d in the manifests, want 1", account, len(found))
	}
	return found[0], nil
}
