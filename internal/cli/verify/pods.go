// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/evaluate"
)

// selection says which pods are looked at.
type selection struct {
	// namespace is empty for all.
	namespace string
	// names are empty for all.
	names []string
	// node is empty for all.
	node string
}

// none says that there is nothing to look at, and where.
func (s selection) none() string {
	text := "no running pod with a claim"
	if s.namespace != "" {
		text += " in namespace " + s.namespace
	}
	if s.node != "" {
		text += " on node " + s.node
	}
	return text
}

// source looks at pods of one node, all of one namespace or of all ("").
type source interface {
	look(ctx context.Context, node, namespace string, pods []corev1.Pod) (*verify.Report, error)
}

// podNames reads pod/NAME, or NAME alone.
func podNames(args []string) ([]string, error) {
	var names []string
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok {
			kind, name = "pod", arg
		}
		if !slices.Contains([]string{"pod", "pods", "po"}, kind) || name == "" {
			return nil, cmdutil.Usagef("%q: want pod/NAME", arg)
		}
		names = append(names, name)
	}
	return names, nil
}

// Bounds of a check of many nodes: how many at a time, and how long one may take to
// answer.
const (
	nodesAtATime = 16
	nodePatience = 30 * time.Second
)

// look has the selected pods looked at, on many nodes at a time. A node that
// cannot be looked at leaves its pods unknown.
func look(ctx context.Context, client kubernetes.Interface, s source, which selection) (*verify.Report, error) {
	pods, err := selected(ctx, client, which)
	if err != nil {
		return nil, err
	}
	byNode := map[string][]corev1.Pod{}
	for _, p := range pods {
		byNode[p.Spec.NodeName] = append(byNode[p.Spec.NodeName], p)
	}
	out := &verify.Report{
		APIVersion: verify.APIVersion, Kind: verify.Kind, Node: which.node, Time: time.Now().UTC().Truncate(time.Second), Pods: []verify.Pod{},
	}
	var mu sync.Mutex
	var looks errgroup.Group
	looks.SetLimit(nodesAtATime)
	for node, here := range byNode {
		looks.Go(func() error {
			patient, cancel := context.WithTimeout(ctx, nodePatience)
			defer cancel()
			report, err := s.look(patient, node, which.namespace, here)
			if err != nil && ctx.Err() != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for _, p := range here {
				out.Pods = append(out.Pods, found(report, p, node, err))
			}
			return nil
		})
	}
	if err := looks.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(out.Pods, verify.ComparePods)
	return out, nil
}

// found takes a pod out of a node's report.
func found(report *verify.Report, pod corev1.Pod, node string, err error) verify.Pod {
	why := "the node's agent does not know it yet, or it does not run"
	if err != nil {
		why = cmdutil.OneLine(err)
	} else if report != nil {
		for _, p := range report.Pods {
			if p.UID == string(pod.UID) {
				return withAnswers(p)
			}
		}
	}
	f := verify.Finding{State: string(evaluate.StateUnknown), Code: string(evaluate.NotRead), What: "the pod", Why: why}
	unknown := verify.Answer{Status: string(evaluate.Unknown), Reason: string(evaluate.NotRead), Message: f.What + ": " + f.Why}
	return verify.Pod{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Node: node, Verdict: string(evaluate.WordUnknown),
		Reason: unknown.Reason, Message: unknown.Message, AsClaimed: unknown, Aligned: unknown, Components: []verify.Component{}, Pairs: []verify.Pair{}, Findings: []verify.Finding{f},
	}
}

// withAnswers completes what an agent said that gave one answer, as all did before the
// two questions had theirs: its verdict was about the claims.
func withAnswers(p verify.Pod) verify.Pod {
	if p.AsClaimed.Status != "" {
		return p
	}
	status := map[string]evaluate.Status{string(evaluate.WordAligned): evaluate.True, string(evaluate.WordMisaligned): evaluate.False}[p.Verdict]
	p.AsClaimed = verify.Answer{Status: string(cmp.Or(status, evaluate.Unknown)), Reason: p.Reason, Message: p.Message}
	p.Aligned = verify.Answer{Status: string(evaluate.Unknown), Reason: string(evaluate.NotRead), Message: "the node's agent is of an older version, which does not say"}
	if status == evaluate.True {
		p.Verdict = string(evaluate.WordAsClaimed)
	}
	return p
}

// selected lists the pods with claims that run; a pod that is named must be
// one.
func selected(ctx context.Context, client kubernetes.Interface, which selection) ([]corev1.Pod, error) {
	if len(which.names) > 0 {
		return named(ctx, client, which)
	}
	options := metav1.ListOptions{}
	if which.node != "" {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", which.node).String()
	}
	list := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().Pods(which.namespace).List(ctx, o)
	}))
	var pods []corev1.Pod
	err := list.EachListItem(ctx, options, func(obj runtime.Object) error {
		if p, ok := obj.(*corev1.Pod); ok && whyNot(p) == "" {
			pods = append(pods, *p)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	if len(pods) == 0 && which.node != "" {
		// An empty list is an error when the node does not exist. Without the
		// right to read nodes that is not checked.
		if _, err := client.CoreV1().Nodes().Get(ctx, which.node, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read node %s: %w", which.node, err)
		}
	}
	return pods, nil
}

func named(ctx context.Context, client kubernetes.Interface, which selection) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	for _, name := range which.names {
		p, err := client.CoreV1().Pods(which.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read pod %s/%s: %w", which.namespace, name, err)
		}
		if why := whyNot(p); why != "" {
			return nil, fmt.Errorf("pod %s/%s %s: want a running pod with resource claims", p.Namespace, p.Name, why)
		}
		if which.node != "" && p.Spec.NodeName != which.node {
			return nil, fmt.Errorf("pod %s/%s runs on node %s, not on %s", p.Namespace, p.Name, p.Spec.NodeName, which.node)
		}
		pods = append(pods, *p)
	}
	return pods, nil
}

// whyNot says why there is nothing to verify of a pod.
func whyNot(p *corev1.Pod) string {
	switch {
	case len(p.Spec.ResourceClaims) == 0 && p.Status.ExtendedResourceClaimStatus == nil:
		return "has no claim"
	case p.Spec.NodeName == "":
		return "is on no node yet"
	case p.DeletionTimestamp != nil:
		return "is being deleted"
	case p.Status.Phase != corev1.PodRunning:
		return fmt.Sprintf("is in phase %s", p.Status.Phase)
	}
	return ""
}
