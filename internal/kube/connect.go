// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"net/netip"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Manager is whose the fields of objects are that agents write: the API server
// takes it from how its clients call themselves (rest.Config.UserAgent).
const Manager = "plumbline-agent"

// Connect builds the agent's client; kubeconfig is empty inside a cluster.
func Connect(kubeconfig string) (kubernetes.Interface, *rest.Config, error) {
	return ConnectAs(Manager, kubeconfig)
}

// ConnectAs builds the client of a program of that name.
func ConnectAs(name, kubeconfig string) (kubernetes.Interface, *rest.Config, error) {
	config, err := rest.InClusterConfig()
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	config.UserAgent = name
	// Every byte of an object as it is stored, which JSON does not keep: a claim's
	// status is given back with it.
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	// One node's slices and claims, also when 100 pods start at once.
	config.QPS, config.Burst = 20, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return client, config, nil
}

// NeededAddresses are the node's own and the API server's: the links that own
// or lead to them are never offered.
func NeededAddresses(node *corev1.Node, config *rest.Config) []netip.Addr {
	var needed []netip.Addr
	for _, a := range node.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			needed = append(needed, ip)
		}
	}
	if server, err := url.Parse(config.Host); err == nil {
		if ip, err := netip.ParseAddr(server.Hostname()); err == nil {
			needed = append(needed, ip)
		}
	}
	return needed
}
