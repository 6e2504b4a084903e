// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
)

// clusterFlags are kubectl's flags for finding a cluster.
type clusterFlags struct{ *genericclioptions.ConfigFlags }

// newClusterFlags keeps of kubectl's many flags those that people use, none of
// them with a letter of ours.
func newClusterFlags() clusterFlags {
	f := genericclioptions.NewConfigFlags(true)
	f.CacheDir, f.CertFile, f.KeyFile, f.BearerToken, f.TLSServerName = nil, nil, nil, nil, nil
	f.APIServer, f.Insecure, f.CAFile, f.DisableCompression, f.Namespace = nil, nil, nil, nil, nil
	f.ImpersonateUID, f.ImpersonateGroup, f.ImpersonateUserExtra = nil, nil, nil
	return clusterFlags{f}
}

func (f clusterFlags) client() (kubernetes.Interface, error) {
	config, err := f.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return client, nil
}
