// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"path/filepath"
	"time"
)

// component is one process of the control plane.
type component struct {
	name string
	args []string
	// ready is the URL that answers 200 once the component serves.
	ready string
	// grace is how long it may take to end when asked.
	grace time.Duration
}

// components lists the control plane in the order it starts. It stops in the
// reverse order: an API server whose etcd is gone holds its port for a minute.
func components(dir string, ports Ports) []component {
	pki := func(name string) string { return filepath.Join(dir, "pki", name) }
	etcd := fmt.Sprintf("http://127.0.0.1:%d", ports.Etcd)
	peer := fmt.Sprintf("http://127.0.0.1:%d", ports.EtcdPeer)
	api := fmt.Sprintf("https://127.0.0.1:%d", ports.API)
	return []component{
		{
			name: "etcd",
			args: []string{
				"--name=lab",
				"--data-dir=" + filepath.Join(dir, "etcd"),
				"--listen-client-urls=" + etcd, "--advertise-client-urls=" + etcd,
				"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
				"--initial-cluster=lab=" + peer,
				// The lab's data is not worth waiting for a disk.
				"--unsafe-no-fsync",
				"--log-level=warn",
			},
			ready: etcd + "/health",
			grace: 5 * time.Second,
		},
		{
			name:  "kube-apiserver",
			args:  apiServerArgs(etcd, ports.API, pki),
			ready: api + "/readyz",
			grace: 30 * time.Second,
		},
		{
			name: "kube-controller-manager",
			args: append(clientArgs("kube-controller-manager", ports.ControllerManager, pki),
				"--use-service-account-credentials",
				"--service-account-private-key-file="+pki("sa.key"),
				"--root-ca-file="+pki("ca.crt"),
				"--cluster-signing-cert-file="+pki("ca.crt"),
				"--cluster-signing-key-file="+pki("ca.key"),
				// Simulated nodes have no kubelet to send signs of life;
				// a real one's kubelet still reports what is wrong.
				"--node-monitor-grace-period=87600h",
			),
			ready: fmt.Sprintf("https://127.0.0.1:%d/healthz", ports.ControllerManager),
			grace: 5 * time.Second,
		},
		{
			name:  "kube-scheduler",
			args:  clientArgs("kube-scheduler", ports.Scheduler, pki),
			ready: fmt.Sprintf("https://127.0.0.1:%d/healthz", ports.Scheduler),
			grace: 5 * time.Second,
		},
	}
}

func apiServerArgs(etcd string, port int, pki func(string) string) []string {
	return []string{
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		// What the kubernetes Service leads to must be an address a pod in
		// a virtual machine can reach; nobody else uses it.
		"--advertise-address=" + HostInGuest,
		"--service-cluster-ip-range=" + ServiceCIDR,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		// As everywhere a network or storage driver runs; who may use it
		// is the business of admission.
		"--allow-privileged=true",
		"--client-ca-file=" + pki("ca.crt"),
		"--tls-cert-file=" + pki("apiserver.crt"),
		"--tls-private-key-file=" + pki("apiserver.key"),
		"--kubelet-client-certificate=" + pki("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + pki("apiserver-kubelet-client.key"),
		// A guest's kubelet is reached through a port of this host's
		// loopback, which the lab, as the cluster's cloud provider, puts
		// into the node's ExternalIP.
		"--kubelet-preferred-address-types=ExternalIP,InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=" + pki("sa.key"),
		"--service-account-key-file=" + pki("sa.pub"),
		// Manifests in the field still ask for the older versions of DRA.
		"--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",
	}
}

// clientArgs are the flags that scheduler and controller-manager share.
func clientArgs(name string, port int, pki func(string) string) []string {
	config := pki(name + ".kubeconfig")
	return []string{
		"--kubeconfig=" + config,
		"--authentication-kubeconfig=" + config,
		"--authorization-kubeconfig=" + config,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--leader-elect=false",
	}
}
