// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ServiceIP is the kubernetes Service's address: the first of ServiceCIDR.
const (
	ServiceCIDR = "10.96.0.0/16"
	ServiceIP   = "10.96.0.1"
)

// HostInGuest is where a virtual machine's user-mode network shows the
// loopback of the host it runs on (QEMU manual, "Network emulation").
const HostInGuest = "10.0.2.2"

// writeCredentials makes every key, certificate and kubeconfig of the cluster
// below dir. Each component gets the identity Kubernetes' own roles are bound
// to, and no more.
func writeCredentials(dir string, apiPort int) error {
	ca, err := newAuthority("plumbline-lab")
	if err != nil {
		return err
	}
	pki := filepath.Join(dir, "pki")
	if err := os.MkdirAll(pki, 0o700); err != nil {
		return err
	}
	caKey, err := encodeKey(ca.key)
	if err != nil {
		return err
	}
	caPair := pair{cert: encodeCert(ca.cert.Raw), key: caKey}
	if err := caPair.write(pki, "ca"); err != nil {
		return err
	}
	serving, err := ca.server("kube-apiserver",
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		[]net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(HostInGuest), net.ParseIP(ServiceIP)})
	if err != nil {
		return err
	}
	if err := serving.write(pki, "apiserver"); err != nil {
		return err
	}
	if err := writeServiceAccountKey(pki); err != nil {
		return err
	}
	return writeClients(dir, ca, apiPort)
}

// client is one user of the API server.
type client struct {
	file        string
	user, group string
	host        string
}

func writeClients(dir string, ca *authority, apiPort int) error {
	clients := []client{
		{"admin", "plumblab-admin", "system:masters", "127.0.0.1"},
		{"kube-controller-manager", "system:kube-controller-manager", "", "127.0.0.1"},
		{"kube-scheduler", "system:kube-scheduler", "", "127.0.0.1"},
	}
	for _, c := range clients {
		text, err := c.kubeconfig(ca, apiPort)
		if err != nil {
			return err
		}
		if err := os.WriteFile(kubeconfigPath(dir, c.file), text, 0o600); err != nil {
			return err
		}
	}
	signed, err := ca.client("plumblab-apiserver", "system:masters")
	if err != nil {
		return err
	}
	return signed.write(filepath.Join(dir, "pki"), "apiserver-kubelet-client")
}

func kubeconfigPath(dir, name string) string {
	return filepath.Join(dir, "pki", name+".kubeconfig")
}

// kubeconfig signs a certificate for the client and writes the file it logs
// in with.
func (c client) kubeconfig(ca *authority, apiPort int) ([]byte, error) {
	signed, err := ca.client(c.user, c.group)
	if err != nil {
		return nil, err
	}
	const name = "plumblab"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   fmt.Sprintf("https://%s:%d", c.host, apiPort),
		CertificateAuthorityData: encodeCert(ca.cert.Raw),
	}
	config.AuthInfos[c.user] = &clientcmdapi.AuthInfo{ClientCertificateData: signed.cert, ClientKeyData: signed.key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: c.user}
	config.CurrentContext = name
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig of %s: %w", c.user, err)
	}
	return text, nil
}

// NodeCredentials returns what the kubelet of the node called name joins
// with, the API server's address as a virtual machine's guest sees it, and
// the certificate of the authority it trusts.
func (cp *ControlPlane) NodeCredentials(name string) (kubeconfig, ca []byte, err error) {
	authority, err := readAuthority(filepath.Join(cp.dir, "pki"))
	if err != nil {
		return nil, nil, err
	}
	kubelet := client{user: "system:node:" + name, group: "system:nodes", host: HostInGuest}
	kubeconfig, err = kubelet.kubeconfig(authority, cp.ports.API)
	return kubeconfig, encodeCert(authority.cert.Raw), err
}

// writeServiceAccountKey makes the key that signs the pods' tokens.
func writeServiceAccountKey(pki string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make service account key: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return fmt.Errorf("encode service account key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode service account key: %w", err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if err := os.WriteFile(filepath.Join(pki, "sa.pub"), public, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(pki, "sa.key"), private, 0o600)
}
