// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package leastprivilege

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// tokenSeconds is how long the tokens live; the API server accepts no less.
const tokenSeconds = 600

// identities are the clients' configurations by Request.Token. The tokens are
// issued by the API server, so the node name in them is what an agent's token
// really carries, not an impersonation of it.
func identities(ctx context.Context, admin *rest.Config, subject Subject) (map[string]*rest.Config, error) {
	clients, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return nil, fmt.Errorf("make administrator's client: %w", err)
	}
	pod, err := agentPod(ctx, clients, subject)
	if err != nil {
		return nil, err
	}
	configs := map[string]*rest.Config{}
	for name, bound := range map[string]*authenticationv1.BoundObjectReference{
		"":          {APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		TokenNoNode: nil,
	} {
		lifetime := int64(tokenSeconds)
		token, err := clients.CoreV1().ServiceAccounts(subject.Namespace).CreateToken(ctx, subject.Account,
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
				BoundObjectRef:    bound,
				ExpirationSeconds: &lifetime,
			}}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("issue token of service account %s/%s: %w", subject.Namespace, subject.Account, err)
		}
		config := rest.AnonymousClientConfig(admin)
		config.BearerToken = token.Status.Token
		configs[name] = config
	}
	return configs, nil
}

// agentPod finds the pod on the subject's node that runs under its account.
func agentPod(ctx context.Context, clients kubernetes.Interface, subject Subject) (*corev1.Pod, error) {
	pods, err := clients.CoreV1().Pods(subject.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + subject.Node,
	})
	if err != nil {
		return nil, fmt.Errorf("list pods of namespace %s on node %s: %w", subject.Namespace, subject.Node, err)
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.ServiceAccountName == subject.Account {
			return &pods.Items[i], nil
		}
	}
	return nil, fmt.Errorf("find agent on node %s: no pod there runs as service account %s/%s",
		subject.Node, subject.Namespace, subject.Account)
}
