// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

// store reads and writes one HostReport. A REST client alone: an informer or a dynamic
// client would cost each agent more memory than its report.
type store struct {
	client rest.Interface
	name   string
}

const resource = "hostreports"

func newStore(config *rest.Config, name string) (*store, error) {
	scheme := runtime.NewScheme()
	if err := hosts.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("client of host reports: %w", err)
	}
	own := rest.CopyConfig(config)
	own.APIPath, own.GroupVersion = "/apis", &hosts.GroupVersion
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// Objects of definitions are served as JSON alone.
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("client of host reports: %w", err)
	}
	return &store{client: client, name: name}, nil
}

func (s *store) get(ctx context.Context) (*hosts.HostReport, error) {
	report := &hosts.HostReport{}
	return report, s.client.Get().Resource(resource).Name(s.name).Do(ctx).Into(report)
}

func (s *store) create(ctx context.Context, report *hosts.HostReport) error {
	return s.client.Post().Resource(resource).Body(report).Do(ctx).Error()
}

func (s *store) update(ctx context.Context, report *hosts.HostReport) error {
	return s.client.Put().Resource(resource).Name(s.name).Body(report).Do(ctx).Error()
}
