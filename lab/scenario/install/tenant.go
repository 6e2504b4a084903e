// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// tenant has the cluster's role view in the namespace of the run, and no other right.
const tenant = "tenant"

// asTenant asks about the pod as somebody does who has its namespace only: he may not ask
// the agents, and verify answers all the same.
func (r *run) asTenant(ctx context.Context) error {
	kubeconfig, err := r.tenantConfig(ctx)
	if err != nil {
		return err
	}
	command := "KUBECONFIG=" + kubeconfig + " plumbline verify --namespace " + namespace
	var out string
	err = harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		out, err = r.typed(ctx, command)
		return err == nil, ctx.Err()
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	first := strings.SplitN(out, "\n", 2)[0]
	said := lineWith(out, "which the node's agent wrote")
	r.report.Finding(err == nil && said != "" && strings.HasPrefix(first, namespace+"/"+podName), "plumbline verify of a tenant", "%s; %s", first, said)
	out, err = r.typed(ctx, "KUBECONFIG="+kubeconfig+" plumbline explain pod/"+podName+" --namespace "+namespace)
	// What devices there are is not his to read: he is told which right is wanting, and where
	// his pods are answered without it.
	r.report.Finding(err != nil && strings.Contains(out, "needs a ClusterRole with list of resourceslices") && strings.Contains(out, "kubectl events --for pod/"),
		"plumbline explain of a tenant", "%s", strings.SplitN(out, "\n", 2)[0])
	return nil
}

// tenantConfig is a file with which the tenant reaches the cluster.
func (r *run) tenantConfig(ctx context.Context) (string, error) {
	accounts := r.Client.CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: tenant}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: tenant},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: tenant}},
	}
	if _, err := r.Client.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	token, err := accounts.CreateToken(ctx, tenant, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(r.Kubectl.Kubeconfig)
	if err != nil {
		return "", err
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{tenant: {Token: token.Status.Token}}
	for _, c := range config.Contexts {
		c.AuthInfo = tenant
	}
	file := filepath.Join(filepath.Dir(r.Values), tenant+".kubeconfig")
	return file, clientcmd.WriteToFile(*config, file)
}
