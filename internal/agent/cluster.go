// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// connect builds the client; kubeconfig is empty inside a cluster.
func connect(kubeconfig string) (kubernetes.Interface, *rest.Config, error) {
	config, err := rest.InClusterConfig()
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	config.UserAgent = "plumbline-agent"
	// One node's slices and claims, also when 100 pods start at once.
	config.QPS, config.Burst = 20, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return client, config, nil
}

// getNode asks until the API server answers: without the node's addresses
// nobody knows which NIC it cannot spare.
func getNode(ctx context.Context, client kubernetes.Interface, name string) (*corev1.Node, error) {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		node, err := client.CoreV1().Nodes().Get(attempt, name, metav1.GetOptions{})
		cancel()
		if err == nil {
			return node, nil
		}
		klog.FromContext(ctx).Info("node not read", "node", name, "reason", err.Error(), "retryIn", wait)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("read node %s: %w", name, err)
		case <-time.After(wait):
		}
	}
}

// neededAddresses are the node's own and the API server's: the links that own
// or lead to them are never offered.
func neededAddresses(node *corev1.Node, config *rest.Config) []netip.Addr {
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

// podFacts is what the kubelet does not tell a driver about a pod.
type podFacts struct {
	UID             types.UID
	Namespace, Name string
	// Claims are the names of the ResourceClaims the pod uses.
	Claims []string
	// Named are the claims that at least one container names.
	Named map[string]bool
}

// pods answers questions about the pods of this node.
type pods struct {
	indexer cache.Indexer
}

const podByUID = "uid"

// watchPods starts the one watch of this node's pods.
func watchPods(ctx context.Context, client kubernetes.Interface, node string) (pods, error) {
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", node))
	informer := cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{podByUID: indexByUID})
	if err := informer.SetTransform(stripPod); err != nil {
		return pods{}, fmt.Errorf("watch pods: %w", err)
	}
	go informer.RunWithContext(ctx)
	return pods{indexer: informer.GetIndexer()}, nil
}

func indexByUID(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	return []string{string(pod.UID)}, nil
}

// stripPod keeps of a pod what podFacts needs: the cache of a full node stays
// small.
func stripPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	small := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}}
	small.Spec.ResourceClaims = pod.Spec.ResourceClaims
	small.Spec.InitContainers = stripContainers(pod.Spec.InitContainers)
	small.Spec.Containers = stripContainers(pod.Spec.Containers)
	small.Status.ResourceClaimStatuses = pod.Status.ResourceClaimStatuses
	return small, nil
}

func stripContainers(containers []corev1.Container) []corev1.Container {
	var small []corev1.Container
	for _, c := range containers {
		if len(c.Resources.Claims) > 0 {
			small = append(small, corev1.Container{Name: c.Name, Resources: corev1.ResourceRequirements{Claims: c.Resources.Claims}})
		}
	}
	return small
}

// get returns the facts of a pod, or nil while the watch has not shown it.
func (p pods) get(uid types.UID) *podFacts {
	if p.indexer == nil {
		return nil
	}
	found, err := p.indexer.ByIndex(podByUID, string(uid))
	if err != nil || len(found) == 0 {
		return nil
	}
	pod, ok := found[0].(*corev1.Pod)
	if !ok {
		return nil
	}
	return factsOf(pod)
}

// wait is get, giving the watch up to limit to catch up with the kubelet.
func (p pods) wait(ctx context.Context, uid types.UID, limit time.Duration) *podFacts {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if facts := p.get(uid); facts != nil {
			return facts
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func factsOf(pod *corev1.Pod) *podFacts {
	facts := &podFacts{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Named: map[string]bool{}}
	claims := map[string]string{} // the pod's word for it -> ResourceClaim
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			claims[s.Name] = *s.ResourceClaimName
		}
	}
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			claims[c.Name] = *c.ResourceClaimName
		}
		if name, ok := claims[c.Name]; ok {
			facts.Claims = append(facts.Claims, name)
		}
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, container := range containers {
			for _, c := range container.Resources.Claims {
				if name, ok := claims[c.Name]; ok {
					facts.Named[name] = true
				}
			}
		}
	}
	return facts
}
