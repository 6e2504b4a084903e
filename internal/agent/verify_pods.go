// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net/http"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/verifying"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/verify/collect"
)

// VerifyPath answers with what the kernel says of the node's pods.
const VerifyPath = verifying.Path

// verifyPods looks at the node's pods until ctx ends. A host that cannot be read
// is no reason not to serve it.
func (a *agent) verifyPods(ctx context.Context, known kube.Pods) {
	if a.VerifyInterval == 0 {
		return
	}
	kernel, err := collect.Open(collect.Options{Proc: a.ProcRoot, Sys: a.SysfsRoot})
	if err != nil {
		klog.FromContext(ctx).Error(err, "pods are not verified")
		a.events.Node(true, "NotVerified", err.Error())
		return
	}
	v := verifying.New(verifying.Options{
		Node: a.NodeName, Interval: a.VerifyInterval, Client: a.client, Pods: known.WithClaims, Machine: a.merged.Current,
		Kernel: kernel, Metrics: a.metrics, Plugged: a.plugged,
		Listeners: verifying.Listeners{Event: a.events.Pod, Condition: a.status.SetAlignment, Misaligned: a.metrics.Misaligned},
	})
	a.verifier.Store(v)
	a.serving.Go(func() {
		v.Run(ctx)
		if err := kernel.Close(); err != nil {
			klog.FromContext(ctx).Error(err, "verification not closed")
		}
	})
}

// answerVerify serves VerifyPath on the agent's own socket.
func (a *agent) answerVerify(w http.ResponseWriter, r *http.Request) {
	v := a.verifier.Load()
	if v == nil {
		http.Error(w, "this agent does not verify pods, or not yet: want --verify-interval above 0, and its start done", http.StatusServiceUnavailable)
		return
	}
	v.Handler().ServeHTTP(w, r)
}
