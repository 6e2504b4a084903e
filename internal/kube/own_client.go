// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	nets "plumbline.dev/plumbline/api/net/v1alpha1"
)

// OwnClient reads and writes the objects of our own group: those of api/hosts and api/net. It
// is a REST client alone: a dynamic client would cost each agent more memory than what it
// writes.
func OwnClient(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(hosts.AddToScheme(scheme), nets.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("client of %s: %w", hosts.GroupVersion, err)
	}
	own := rest.CopyConfig(config)
	own.APIPath, own.GroupVersion = "/apis", &hosts.GroupVersion
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// Objects of definitions are served as JSON alone.
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", hosts.GroupVersion, err)
	}
	return client, nil
}
