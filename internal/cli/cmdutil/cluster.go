// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"errors"
	"fmt"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
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

// errNoCluster is returned in place of a refused connection to localhost:8080, the
// default of client-go without a configuration.
var errNoCluster = errors.New("no kubeconfig names one: set KUBECONFIG, or give --kubeconfig")

// ToRESTConfig finds the cluster as kubectl does: by flags, KUBECONFIG,
// ~/.kube/config, or the service account of the pod that one is in.
func (f ClusterFlags) ToRESTConfig() (*rest.Config, error) {
	config, err := f.ConfigFlags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	known, err := f.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	if len(known.Clusters) == 0 && config.Host == clientcmd.ClusterDefaults.Server {
		return nil, fmt.Errorf("find the cluster: %w", errNoCluster)
	}
	return config, nil
}

// Client connects to the cluster.
func (f ClusterFlags) Client() (kubernetes.Interface, error) {
	config, err := f.ToRESTConfig()
	if err != nil {
		return nil, err
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
