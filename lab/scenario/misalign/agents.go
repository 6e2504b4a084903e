// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package misalign

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/internal/verify"
)

// The observer of deploy/observe.yaml, and the interval that the lab changes in it.
const (
	observer     = "daemonset/" + deploy.ObserverServiceAccount
	slowInterval = "--verify-interval=10s"
	fastInterval = "--verify-interval=1s"
)

// agent is one of the node's two.
type agent struct {
	Name string
	pid  string
}

// installObserver applies what users apply, with the lab's way to the API server
// and its interval.
func (r *run) installObserver(ctx context.Context) error {
	text, err := os.ReadFile(r.Manifest)
	if err != nil {
		return fmt.Errorf("install the observer: %w", err)
	}
	manifest := strings.ReplaceAll(string(text), slowInterval, fastInterval)
	if manifest == string(text) {
		return fmt.Errorf("install the observer: %s has no %s", r.Manifest, slowInterval)
	}
	if _, err := r.Kubectl.RunWithInput(ctx, manifest, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	// The lab runs no service proxy: as the serving agent, it gets the address by its environment.
	where, err := r.Kubectl.Run(ctx, "get", "-n", deploy.Namespace, "daemonset/"+deploy.AgentServiceAccount,
		"-o", `jsonpath={range .spec.template.spec.containers[0].env[?(@.value)]}{.name}={.value} {end}`)
	if err != nil {
		return err
	}
	set := append([]string{"set", "env", "-n", deploy.Namespace, observer}, strings.Fields(where)...)
	if _, err := r.Kubectl.Run(ctx, set...); err != nil {
		return err
	}
	_, err = r.Kubectl.Run(ctx, "rollout", "status", "-n", deploy.Namespace, "--timeout=3m", observer)
	return err
}

// removeObserver takes away what the manifest made. What the chart has too is the chart's:
// an object that Helm finds without its label it does not take over. Their pods are waited
// for, since the next scenario counts the node's namespaces.
func (r *run) removeObserver(ctx context.Context) error {
	_, err := r.Kubectl.Run(ctx, "delete", "--ignore-not-found", "--wait", "--cascade=foreground", "-n", deploy.Namespace,
		"daemonset,deployment,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding",
		"-l", "app.kubernetes.io/part-of=plumbline,app.kubernetes.io/managed-by!=Helm")
	return err
}

// findAgents finds both by their command lines.
const findAgents = `for process in /proc/[0-9]*; do
	read -r comm <"$process/comm" && [ "$comm" = plumbline-agent ] || continue
	role=serving
	tr '\0' '\n' <"$process/cmdline" | grep -qx -e --drivers=none && role=observing
	tr '\0' '\n' <"$process/cmdline" | grep -q -e --node-name= && echo "$role ${process#/proc/}"
done 2>/dev/null
exit 0`

func (r *run) findAgents(ctx context.Context) ([]agent, error) {
	out, err := r.Shell(ctx, findAgents)
	if err != nil {
		return nil, fmt.Errorf("find the node's agents: %w", err)
	}
	agents := []agent{{Name: "serving"}, {Name: "observing"}}
	for line := range strings.Lines(out) {
		role, pid, _ := strings.Cut(strings.TrimSpace(line), " ")
		for i := range agents {
			if agents[i].Name == role {
				agents[i].pid = pid
			}
		}
	}
	for _, a := range agents {
		if a.pid == "" {
			return nil, fmt.Errorf("no agent of the node's is %s: %q", a.Name, out)
		}
	}
	return agents, nil
}

// verdicts are what an agent says of the run's pods, by name.
func (r *run) verdicts(ctx context.Context, a agent) (map[string]verify.Pod, error) {
	text, err := r.Shell(ctx, `exec nsenter -t "$1" -m /usr/bin/plumbline-agent verify --namespace="$2"`, a.pid, namespace)
	if err != nil {
		return nil, fmt.Errorf("ask the %s agent: %w", a.Name, err)
	}
	var report verify.Report
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return nil, fmt.Errorf("read the answer of the %s agent: %w", a.Name, err)
	}
	pods := map[string]verify.Pod{}
	for _, p := range report.Pods {
		pods[p.Name] = p
	}
	return pods, nil
}
