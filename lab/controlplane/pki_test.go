// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	if err := writeCredentials(dir, 6443); err != nil {
		t.Fatal(err)
	}
	cp := &ControlPlane{dir: dir, ports: Ports{API: 6443}}
	kubeconfig, ca, err := cp.NodeCredentials("n1")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if want := "https://" + HostInGuest + ":6443"; config.Host != want {
		t.Errorf("a guest's API server is %s, want %s", config.Host, want)
	}

	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatal("the authority's certificate is no PEM")
	}
	user := parse(t, config.CertData)
	if got := user.Subject.String(); got != "CN=system:node:n1,O=system:nodes" {
		t.Errorf("the kubelet is %s", got)
	}
	if _, err := user.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}

	text, err := os.ReadFile(filepath.Join(dir, "pki", "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	server := parse(t, text)
	for _, name := range []string{"127.0.0.1", HostInGuest, ServiceIP, "localhost", "kubernetes.default.svc"} {
		if _, err := server.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("the API server as %s: %v", name, err)
		}
	}
	for _, name := range []string{"ca.key", "sa.key", "apiserver.key", "admin.kubeconfig"} {
		info, err := os.Stat(filepath.Join(dir, "pki", name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s may be read by others: %v", name, info.Mode())
		}
	}
}

func parse(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("no PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// Nothing of a lab may be reached from another machine.
func TestComponentsListenOnLoopback(t *testing.T) {
	for _, part := range components("/state", Ports{}) {
		bound := false
		for _, arg := range part.args {
			name, value, _ := strings.Cut(arg, "=")
			switch name {
			case "--bind-address":
				bound = value == "127.0.0.1"
			case "--listen-client-urls", "--listen-peer-urls":
				bound = strings.HasPrefix(value, "http://127.0.0.1:")
			default:
				continue
			}
			if !bound {
				t.Errorf("%s: %s", part.name, arg)
			}
		}
		if !bound {
			t.Errorf("%s listens on every address", part.name)
		}
	}
}
