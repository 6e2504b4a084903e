// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package leastprivilege

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// makeFixtures creates the objects, after removing what an interrupted run may
// have left, and sets the status of those that list one. The returned function
// removes what was made, also after an error.
func makeFixtures(ctx context.Context, admin *rest.Config, fixtures []map[string]any) (remove func(context.Context) error, err error) {
	var made []func(context.Context) error
	remove = func(ctx context.Context) error {
		var all []error
		for _, undo := range made {
			all = append(all, undo(ctx))
		}
		return errors.Join(all...)
	}
	client, err := dynamic.NewForConfig(admin)
	if err != nil {
		return remove, fmt.Errorf("make administrator's client: %w", err)
	}
	groups, err := discovery.NewDiscoveryClientForConfig(admin)
	if err != nil {
		return remove, fmt.Errorf("make administrator's client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(groups))
	for _, fixture := range fixtures {
		object := &unstructured.Unstructured{Object: fixture}
		objects, err := resourceOf(client, mapper, object)
		if err != nil {
			return remove, err
		}
		undo := func(ctx context.Context) error {
			err := objects.Delete(ctx, object.GetName(), metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("remove fixture %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			return nil
		}
		if err := undo(ctx); err != nil {
			return remove, err
		}
		made = append(made, undo)
		if err := makeFixture(ctx, objects, object); err != nil {
			return remove, err
		}
	}
	return remove, nil
}

// resourceOf finds the client for an object's kind.
func resourceOf(client dynamic.Interface, mapper meta.RESTMapper, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("find resource of fixture %s %s: %w", kind.Kind, object.GetName(), err)
	}
	if object.GetNamespace() == "" {
		return client.Resource(mapping.Resource), nil
	}
	return client.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
}

func makeFixture(ctx context.Context, objects dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	created, err := objects.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make fixture %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	status, has := object.Object["status"]
	if !has {
		return nil
	}
	created.Object["status"] = status
	if _, err := objects.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("set status of fixture %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
