// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"context"
	"encoding/json"
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

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/verify"
)

// agentContainer is the container of theirs that runs the agent.
const agentContainer = "agent"

// execute runs a command in a pod and returns what it printed.
type execute func(ctx context.Context, namespace, pod string, command []string) (out []byte, err error)

// agents asks the agent of a node.
type agents struct {
	client    kubernetes.Interface
	namespace string
	execute   execute
}

func (a agents) look(ctx context.Context, node, namespace string, pods []corev1.Pod) (*verify.Report, error) {
	agent, err := a.on(ctx, node)
	if err != nil {
		return nil, err
	}
	command := []string{"plumbline-agent", "verify"}
	if namespace != "" {
		command = append(command, "--namespace="+namespace)
	}
	if len(pods) == 1 {
		command = append(command, "--pod="+pods[0].Name)
	}
	out, err := a.execute(ctx, a.namespace, agent, command)
	if err != nil {
		return nil, fmt.Errorf("ask agent %s/%s on node %s: %w", a.namespace, agent, node, err)
	}
	var report verify.Report
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, fmt.Errorf("read the answer of agent %s/%s: %w", a.namespace, agent, err)
	}
	return &report, nil
}

// on finds the agent of a node. While one takes over from another there are two.
func (a agents) on(ctx context.Context, node string) (string, error) {
	list, err := a.client.CoreV1().Pods(a.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: cmdutil.AgentLabels, FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return "", fmt.Errorf("find the agent of node %s: %w", node, err)
	}
	for _, ready := range []bool{true, false} {
		for i := range list.Items {
			p := &list.Items[i]
			if p.Status.Phase == corev1.PodRunning && p.Spec.NodeName == node && (cmdutil.IsReady(p) || !ready) {
				return p.Name, nil
			}
		}
	}
	return "", fmt.Errorf("no agent of plumbline runs on node %s in namespace %s: want one, such as by deploy/observe.yaml, or --agent-namespace", node, a.namespace)
}

// byStream executes as kubectl exec does, by WebSocket and where that is not
// understood by SPDY.
func byStream(config *rest.Config, client kubernetes.Interface) execute {
	return func(ctx context.Context, namespace, pod string, command []string) ([]byte, error) {
		request := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Container: agentContainer, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
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
				return nil, errors.New(said)
			}
			return nil, err
		}
		return out.Bytes(), nil
	}
}
