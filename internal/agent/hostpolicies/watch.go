// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicies

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

const resource = "hostpolicies"

// watch calls changed with all policies of the cluster when they are known, and whenever
// one is another, until ctx ends. While the API server is away it calls nothing.
func watch(ctx context.Context, client rest.Interface, changed func([]*hosts.HostPolicy)) {
	source := cache.NewListWatchFromClient(client, resource, metav1.NamespaceAll, fields.Everything())
	store := cache.NewUndeltaStore(func(all []any) {
		policies := make([]*hosts.HostPolicy, 0, len(all))
		for _, one := range all {
			if policy, ok := one.(*hosts.HostPolicy); ok {
				policies = append(policies, policy)
			}
		}
		changed(policies)
	}, cache.MetaNamespaceKeyFunc)
	cache.NewReflectorWithOptions(source, &hosts.HostPolicy{}, store, cache.ReflectorOptions{Name: resource}).RunWithContext(ctx)
}
