// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/internal/operator"
	"plumbline.dev/plumbline/internal/operator/uninstall"
	"plumbline.dev/plumbline/internal/unixhttp"
)

var (
	reportsV1alpha1       = schema.GroupVersionResource{Group: "plumbline.dev", Version: "v1alpha1", Resource: "hostreports"}
	installationsV1alpha1 = schema.GroupVersionResource{Group: "plumbline.dev", Version: "v1alpha1", Resource: "installations"}
)

// operatorFixture is a node with a report, and operators that look after it with the
// rights that install.yaml gives them.
type operatorFixture struct {
	t          *testing.T
	client     *kubernetes.Clientset
	dynamic    dynamic.Interface
	kubeconfig string
}

const reportedNode = "reported"

// tryOperator runs two replicas of the operator: one leads, the other takes over when
// that ends. Conditions and labels come, are put right, and go.
func tryOperator(t *testing.T, admin *rest.Config) {
	f := &operatorFixture{t: t, client: kubernetes.NewForConfigOrDie(admin), dynamic: dynamic.NewForConfigOrDie(admin)}
	f.kubeconfig = f.accountConfig(admin, deploy.OperatorServiceAccount)
	node, err := f.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: reportedNode}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.report(node)

	replicas := map[string]context.CancelFunc{}
	for _, name := range []string{"a", "b"} {
		socket := filepath.Join(t.TempDir(), name)
		replicas[socket] = f.start(socket)
	}
	leader := f.leader(slices.Collect(maps.Keys(replicas)))
	const all = "plumbline.dev/HostReady=False plumbline.dev/RDMAReady=True"
	f.await("the conditions of the report", all, "6.1.0-test")
	f.awaitInstallation("NoNodes")

	replicas[leader]()
	delete(replicas, leader)
	f.leader(slices.Collect(maps.Keys(replicas)))
	f.edit(`{"metadata": {"labels": {"feature.node.kubernetes.io/kernel-version.full": "by-hand"}}}`, "")
	f.edit(`{"status": {"conditions": [{"type": "plumbline.dev/HostReady", "status": "True"}]}}`, "status")
	f.await("an edit by hand put right", all, "6.1.0-test")

	if err := f.dynamic.Resource(reportsV1alpha1).Delete(t.Context(), reportedNode, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.await("nothing without a report", "", "")
	f.report(node)
	f.await("the report is back", all, "6.1.0-test")

	for _, stop := range replicas {
		stop()
	}
	// What the hook of an uninstallation does, when nobody writes any more.
	var said strings.Builder
	if err := operator.Cleanup(t.Context(), f.adminConfig(admin), uninstall.Leftovers{Namespace: deploy.Namespace}, &said); err != nil {
		t.Fatal(err)
	}
	if want := "node " + reportedNode + ": conditions and labels taken off\n1 node had conditions or labels of plumbline\n"; said.String() != want {
		t.Errorf("cleanup says %q, want %q", said.String(), want)
	}
	f.await("nothing after the cleanup", "", "")
}

// start runs a replica until the test ends or the function is called, which waits for
// its end.
func (f *operatorFixture) start(socket string) context.CancelFunc {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		o := operator.DefaultOptions()
		o.Kubeconfig, o.Namespace, o.Socket = f.kubeconfig, deploy.Namespace, socket
		ended <- operator.Run(ctx, o)
	}()
	end := sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			f.t.Errorf("operator: %v", err)
		}
	})
	f.t.Cleanup(end)
	return end
}

// leader waits until all replicas are ready and one of them leads.
func (f *operatorFixture) leader(sockets []string) (leads string) {
	f.t.Helper()
	answers := map[string]string{}
	err := wait.PollUntilContextTimeout(f.t.Context(), 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		leaders, ready := 0, 0
		for _, socket := range sockets {
			answer, err := unixhttp.Ask(ctx, socket, operator.HealthPath, unixhttp.ProbeAtMost)
			if answers[socket] = answer; err != nil {
				answers[socket] = err.Error()
				continue
			}
			ready++
			if answer == "ok: leads\n" {
				leaders++
				leads = socket
			}
		}
		return leaders == 1 && ready == len(sockets), nil
	})
	if err != nil {
		f.t.Fatalf("no leader: %v: %v", answers, err)
	}
	return leads
}

// report makes the report of the node, as its agent would.
func (f *operatorFixture) report(node *corev1.Node) {
	f.t.Helper()
	if _, err := f.dynamic.Resource(reportsV1alpha1).Create(f.t.Context(), reportOf(node), metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *operatorFixture) edit(patch, subresource string) {
	f.t.Helper()
	var sub []string
	if subresource != "" {
		sub = []string{subresource}
	}
	if _, err := f.client.CoreV1().Nodes().Patch(f.t.Context(), reportedNode, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, sub...); err != nil {
		f.t.Fatal(err)
	}
}

// await waits until the node's conditions are so, and the label of its kernel.
func (f *operatorFixture) await(what, conditions, kernel string) {
	f.t.Helper()
	f.poll(what, strings.TrimSpace(conditions+" "+kernel), f.ofNode)
}

// awaitInstallation waits until the reason of the Installation's condition is so.
func (f *operatorFixture) awaitInstallation(reason string) {
	f.t.Helper()
	f.poll("the Installation", reason, f.ofInstallation)
}

func (f *operatorFixture) poll(what, want string, look func(context.Context) (string, error)) {
	f.t.Helper()
	got := ""
	err := wait.PollUntilContextTimeout(f.t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		var err error
		got, err = look(ctx)
		return got == want, err
	})
	if err != nil {
		f.t.Fatalf("%s: %q, want %q: %v", what, got, want, err)
	}
}

func (f *operatorFixture) ofNode(ctx context.Context) (string, error) {
	node, err := f.client.CoreV1().Nodes().Get(ctx, reportedNode, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	var words []string
	for _, c := range node.Status.Conditions {
		words = append(words, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	slices.Sort(words)
	return strings.TrimSpace(strings.Join(words, " ") + " " + node.Labels["feature.node.kubernetes.io/kernel-version.full"]), nil
}

func (f *operatorFixture) ofInstallation(ctx context.Context) (string, error) {
	is, err := f.dynamic.Resource(installationsV1alpha1).Get(ctx, "plumbline", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var typed hosts.Installation
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(is.Object, &typed); err != nil || len(typed.Status.Conditions) != 1 {
		return "", err
	}
	return typed.Status.Conditions[0].Reason, nil
}

// accountConfig writes a kubeconfig with a token of an account of the installation.
func (f *operatorFixture) accountConfig(admin *rest.Config, account string) string {
	f.t.Helper()
	return kubeconfigOf(f.t, admin, &clientcmdapi.AuthInfo{Token: tokenOf(f.t, f.client, account)})
}

func (f *operatorFixture) adminConfig(admin *rest.Config) string {
	f.t.Helper()
	return kubeconfigOf(f.t, admin, &clientcmdapi.AuthInfo{
		ClientCertificate: admin.CertFile, ClientCertificateData: admin.CertData, ClientKey: admin.KeyFile, ClientKeyData: admin.KeyData, Token: admin.BearerToken,
	})
}

// tokenOf is a token of a shipped account.
func tokenOf(t testing.TB, client kubernetes.Interface, account string) string {
	t.Helper()
	answer, err := client.CoreV1().ServiceAccounts(deploy.Namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

// kubeconfigOf is a file with which a user reaches a server.
func kubeconfigOf(t testing.TB, server *rest.Config, user *clientcmdapi.AuthInfo) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.Host, CertificateAuthority: server.CAFile, CertificateAuthorityData: server.CAData}
	config.AuthInfos["u"] = user
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}
