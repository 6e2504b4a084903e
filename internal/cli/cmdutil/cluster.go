// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"fmt"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
)

// ClusterFlags are kubectl's flags for finding a cluster.
type ClusterFlags struct{ *genericclioptions.ConfigFlags }

// NewClusterFlags keeps of kubectl's many flags those that people use, none of
// them with a letter of ours.
func NewClusterFlags() ClusterFlags {
	f := NewNamespacedFlags()
	f.Namespace = nil
	return f
}

// NewNamespacedFlags are NewClusterFlags, and --namespace.
func NewNamespacedFlags() ClusterFlags {
	f := genericclioptions.NewConfigFlags(true)
	f.CacheDir, f.CertFile, f.KeyFile, f.BearerToken, f.TLSServerName = nil, nil, nil, nil, nil
	f.APIServer, f.Insecure, f.CAFile, f.DisableCompression = nil, nil, nil, nil
	f.ImpersonateUID, f.ImpersonateGroup, f.ImpersonateUserExtra = nil, nil, nil
	return ClusterFlags{f}
}

// Client connects to the cluster.
func (f ClusterFlags) Client() (kubernetes.Interface, error) {
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

// CurrentNamespace is the namespace of --namespace, or that of the context.
func (f ClusterFlags) CurrentNamespace() (string, error) {
	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("find the namespace: %w", err)
	}
	return namespace, nil
}
