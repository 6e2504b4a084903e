// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// AgentLabels select the agents' pods, those that only observe among them.
const AgentLabels = "app.kubernetes.io/name=plumbline,app.kubernetes.io/component in (agent, observer)"

// AgentNamespace is where agents run unless a flag says otherwise.
const AgentNamespace = "plumbline-system"

// agentContainer is the container of theirs that runs the agent.
const agentContainer = "agent"

// Execute runs a command in a pod and returns what it printed, also where it failed.
type Execute func(ctx context.Context, namespace, pod string, command []string) (out []byte, err error)

// Agents are asked by commands in their pods.
type Agents struct {
	Client kubernetes.Interface
	// Namespace is where they run.
	Namespace string
	Execute   Execute
}

// AgentsOf are those of a cluster.
func AgentsOf(f ClusterFlags, client kubernetes.Interface, namespace string) (Agents, error) {
	config, err := f.ToRESTConfig()
	if err != nil {
		return Agents{}, err
	}
	return Agents{Client: client, Namespace: namespace, Execute: byStream(config, client, agentContainer)}, nil
}

// ExecuteIn runs commands in a container of pods of a cluster.
func ExecuteIn(f ClusterFlags, client kubernetes.Interface, container string) (Execute, error) {
	config, err := f.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return byStream(config, client, container), nil
}

// Ask runs a command in the pod of a node's agent.
func (a Agents) Ask(ctx context.Context, node string, command ...string) ([]byte, error) {
	agent, err := a.on(ctx, node)
	if err != nil {
		return nil, err
	}
	out, err := a.Execute(ctx, a.Namespace, agent, command)
	if err != nil {
		return nil, fmt.Errorf("ask agent %s/%s on node %s: %w", a.Namespace, agent, node, err)
	}
	return out, nil
}

// on finds the agent of a node. While one takes over from another there are two.
func (a Agents) on(ctx context.Context, node string) (string, error) {
	list, err := a.Client.CoreV1().Pods(a.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: AgentLabels, FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return "", fmt.Errorf("find the agent of node %s: %w", node, err)
	}
	for _, ready := range []bool{true, false} {
		for i := range list.Items {
			p := &list.Items[i]
			if p.Status.Phase == corev1.PodRunning && p.Spec.NodeName == node && (IsReady(p) || !ready) {
				return p.Name, nil
			}
		}
	}
	return "", fmt.Errorf("no agent of plumbline runs on node %s in namespace %s: want one, such as by deploy/observe.yaml, or --agent-namespace", node, a.Namespace)
}

// IsReady says whether a pod is Ready.
func IsReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// byStream executes as kubectl exec does, by WebSocket and where that is not
// understood by SPDY.
func byStream(config *rest.Config, client kubernetes.Interface, container string) Execute {
	return func(ctx context.Context, namespace, pod string, command []string) ([]byte, error) {
		request := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
		websocket, err := remotecommand.NewWebSocketExecutor(config, "GET", request.URL().String())
		if err != nil {
			return nil, err
		}
		spdy, err := remotecommand.NewSPDYExecutor(config, "POST", request.URL())
		if err != nil {
			return nil, err
		}
		either, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool { return !apierrors.IsForbidden(err) })
		if err != nil {
			return nil, err
		}
		var out, errOut bytes.Buffer
		if err := either.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}); err != nil {
			if said := strings.TrimSpace(errOut.String()); said != "" {
				err = errors.New(said)
			}
			return out.Bytes(), err
		}
		return out.Bytes(), nil
	}
}
