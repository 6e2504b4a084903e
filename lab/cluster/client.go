// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"plumbline.dev/plumbline/lab/controlplane"
)

// Client returns the administrator's client.
func (c *Cluster) Client() (*kubernetes.Clientset, error) {
	cp, err := c.find()
	if err != nil {
		return nil, err
	}
	return clientOf(cp)
}

// PauseAPIServer stops the API server until resume is called.
func (c *Cluster) PauseAPIServer() (resume func() error, err error) {
	cp, err := c.find()
	if err != nil {
		return nil, err
	}
	return cp.Pause("kube-apiserver")
}

// clientOf returns the administrator's client of a control plane.
func clientOf(cp *controlplane.ControlPlane) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", cp.Kubeconfig(), err)
	}
	// One person at a time: no need to go easy on the API server.
	config.QPS, config.Burst = 200, 200
	return kubernetes.NewForConfig(config)
}
