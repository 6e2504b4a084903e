// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostreport

import (
	"context"

	"k8s.io/client-go/rest"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

// store reads and writes one HostReport.
type store struct {
	client rest.Interface
	name   string
}

const resource = "hostreports"

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
