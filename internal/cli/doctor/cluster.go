// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/kube"
)

// client reads what is known of nodes.
type client struct {
	core kubernetes.Interface
	// reports serves HostReports.
	reports rest.Interface
	// agents is the namespace of the agents.
	agents string
}

const resource = "hostreports"

func (o *options) client() (*client, error) {
	config, err := o.cluster.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	reports, err := kube.OwnClient(config)
	if err != nil {
		return nil, err
	}
	return &client{core: core, reports: reports, agents: o.agents}, nil
}

// seen is what a cluster knows of the chosen nodes.
type seen struct {
	nodes   []corev1.Node
	reports map[string]*hosts.HostReport
	agents  agents
	gpus    *gpus
}

// one reads a node by name.
func (c *client) one(ctx context.Context, name string) (seen, error) {
	node, err := c.core.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return seen{}, fmt.Errorf("node %q is not in the cluster", name)
	}
	if err != nil {
		return seen{}, fmt.Errorf("read node %s: %w", name, err)
	}
	s := seen{nodes: []corev1.Node{*node}, reports: map[string]*hosts.HostReport{}}
	report := &hosts.HostReport{}
	err = c.reports.Get().Resource(resource).Name(name).Do(ctx).Into(report)
	switch {
	case err == nil:
		s.reports[name] = report
	case !isAbsent(err, name):
		return s, explained(fmt.Errorf("read HostReport %s: %w", name, err))
	}
	if s.agents, err = c.listAgents(ctx, name); err == nil {
		s.gpus, err = c.listGPUs(ctx, name)
	}
	return s, err
}

// isAbsent says that there is no report of that name. Where the API server has no such
// resource at all, the answer names no object.
func isAbsent(err error, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name
}

// explained says what would be right where reports cannot be read.
func explained(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: want the CustomResourceDefinition hostreports.plumbline.dev of plumbline's chart", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: want a ClusterRole with get and list of nodes and of hostreports (plumbline.dev)", err)
	}
	return err
}

// all reads the nodes that labels select; all with "".
func (c *client) all(ctx context.Context, selector string) (seen, error) {
	if _, err := labels.Parse(selector); err != nil {
		return seen{}, cmdutil.Usagef("-l %q: %v", selector, err)
	}
	s := seen{reports: map[string]*hosts.HostReport{}}
	err := each(ctx, metav1.ListOptions{LabelSelector: selector}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.core.CoreV1().Nodes().List(ctx, o)
	}, func(n *corev1.Node) { s.nodes = append(s.nodes, *n) })
	if err != nil {
		return s, fmt.Errorf("list nodes: %w", err)
	}
	err = each(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		list := &hosts.HostReportList{}
		return list, c.reports.Get().Resource(resource).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(list)
	}, func(r *hosts.HostReport) { s.reports[r.Name] = r })
	if err != nil {
		return s, explained(fmt.Errorf("list HostReports: %w", err))
	}
	if s.agents, err = c.listAgents(ctx, ""); err == nil {
		s.gpus, err = c.listGPUs(ctx, "")
	}
	return s, err
}

var errUnexpected = errors.New("the server answered with something else")

// each lists page by page.
func each[T any](ctx context.Context, o metav1.ListOptions, list pager.ListPageFunc, add func(*T)) error {
	return pager.New(list).EachListItem(ctx, o, func(item runtime.Object) error {
		object, ok := any(item).(*T)
		if !ok {
			return errUnexpected
		}
		add(object)
		return nil
	})
}

// agents are the agents' pods by node.
type agents struct {
	namespace string
	// unknown says why the pods cannot be listed, which tells nothing of the nodes.
	unknown string
	of      map[string]agentState
}

// agentState is what is known of the agent of a node; the greatest is of the pod that
// serves best, while one takes over from another.
type agentState int

const (
	noAgent agentState = iota
	agentNotReady
	agentObserves
	agentReady
)

// listAgents finds the agents of one node, or of all with "".
func (c *client) listAgents(ctx context.Context, node string) (agents, error) {
	a := agents{namespace: c.agents, of: map[string]agentState{}}
	o := metav1.ListOptions{LabelSelector: cmdutil.AgentLabels}
	if node != "" {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	}
	err := each(ctx, o, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.core.CoreV1().Pods(c.agents).List(ctx, o)
	}, func(p *corev1.Pod) { a.of[p.Spec.NodeName] = max(a.of[p.Spec.NodeName], stateOf(p)) })
	if apierrors.IsForbidden(err) {
		a.unknown = cmdutil.OneLine(err)
		return a, nil
	}
	if err != nil {
		return a, fmt.Errorf("list the agents in namespace %s: %w", c.agents, err)
	}
	return a, nil
}

func stateOf(p *corev1.Pod) agentState {
	switch {
	case p.Status.Phase != corev1.PodRunning || !cmdutil.IsReady(p):
		return agentNotReady
	case p.Labels["app.kubernetes.io/component"] == "observer":
		return agentObserves
	}
	return agentReady
}
