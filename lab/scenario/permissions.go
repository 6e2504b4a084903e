// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/deploy/leastprivilege"
	"plumbline.dev/plumbline/deploy/render"
	"plumbline.dev/plumbline/lab/scenario/claimcheck"
)

// permissions tries, with the agent's own tokens, what the agent must not be
// able to do, and the same with the operator's.
func (d Demo) permissions(ctx context.Context) (bool, error) {
	admin, err := clientcmd.BuildConfigFromFlags("", d.Kubectl.Kubeconfig)
	if err != nil {
		return false, fmt.Errorf("read kubeconfig: %w", err)
	}
	admin.WarningHandler = rest.NoWarnings{} // an old API version is tried on purpose
	d.heading("What the agent on %s may do, and what it is refused", d.Node)
	capabilities, err := d.capabilities(ctx)
	if err != nil {
		return false, err
	}
	agent, err := d.tryRights(ctx, admin, deploy.AgentServiceAccount, deploy.Forbidden(), capabilities)
	if err != nil {
		return false, err
	}
	d.heading("The same of the operator, which tells pods why they wait and nodes how their hosts are")
	operator, err := d.tryRights(ctx, admin, deploy.OperatorServiceAccount, deploy.ForbiddenOperator())
	return agent && operator, err
}

// tryRights sends an account's list of requests, and prints the answers with what
// else is known.
func (d Demo) tryRights(ctx context.Context, admin *rest.Config, account string, requests []byte, more ...claimcheck.Result) (bool, error) {
	subject := leastprivilege.Subject{Node: d.Node, Namespace: deploy.Namespace, Account: account}
	list, err := leastprivilege.Parse(requests, subject)
	if err != nil {
		return false, err
	}
	results, err := leastprivilege.Run(ctx, admin, subject, list)
	if err != nil {
		return false, err
	}
	extra, err := d.extraRights(ctx, admin, subject)
	if err != nil {
		return false, err
	}
	t := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', 0)
	ok := true
	for _, r := range results {
		answer := "allowed"
		if r.Request.Refused != "" {
			answer = "refused"
		}
		if r.Wrong != nil {
			ok, answer = false, r.Wrong.Error()
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\n", claimcheck.Mark(r.Wrong == nil), r.Request.Name, answer)
	}
	for _, v := range append([]claimcheck.Result{extra}, more...) {
		ok = ok && v.OK
		fmt.Fprintf(t, "  %s\t%s\t%s\n", claimcheck.Mark(v.OK), v.What, v.Why)
	}
	return ok, t.Flush()
}

// extraRights asks the API server for everything an account may do, and
// compares it with the roles that the chart ships.
func (d Demo) extraRights(ctx context.Context, admin *rest.Config, subject leastprivilege.Subject) (claimcheck.Result, error) {
	v := claimcheck.Result{What: "nothing granted beside the chart's own roles"}
	mode := "simulated"
	if d.NVIDIA {
		mode = "external"
	}
	manifests, err := render.Chart(deploy.Namespace, map[string]any{
		"drivers": map[string]any{"gpu": map[string]any{"mode": mode, "machine": d.Node}},
	})
	if err != nil {
		return v, err
	}
	var rights []string
	for _, namespace := range []string{"default", "kube-system", deploy.Namespace} {
		shipped, err := leastprivilege.ShippedRules(manifests, subject.Account, namespace)
		if err != nil {
			return v, err
		}
		more, err := leastprivilege.UnexpectedRights(ctx, admin, subject, shipped, namespace)
		if err != nil {
			return v, err
		}
		for _, right := range more {
			rights = append(rights, right+" in "+namespace)
		}
	}
	v.OK, v.Why = len(rights) == 0, "as shipped"
	if len(rights) > 0 {
		v.Why = strings.Join(rights, "; ")
	}
	return v, nil
}

// agentCapabilities are NET_ADMIN (bit 12), NET_RAW (bit 13), SYS_PTRACE (bit 19)
// and SYS_ADMIN (bit 21), as include/uapi/linux/capability.h numbers them.
const agentCapabilities = "0000000000283000"

// capabilities reads what the running agent's process may do on the node, as
// the kernel says.
func (d Demo) capabilities(ctx context.Context) (claimcheck.Result, error) {
	v := claimcheck.Result{What: "the agent's process has NET_ADMIN, NET_RAW, SYS_ADMIN and SYS_PTRACE, no more"}
	const bounding = `awk '/^Cap(Eff|Bnd):/ { print $2 }' "/proc/$1/status"`
	pid, err := d.agentProcess(ctx)
	if err != nil {
		return v, err
	}
	text, err := d.Kubectl.Shell(ctx, probeNamespace, probePod, bounding, pid)
	if err != nil {
		return v, fmt.Errorf("read the agent's capabilities: %w", err)
	}
	v.Why = strings.Join(strings.Fields(text), ", ") + " (effective, bounding)"
	v.OK = v.Why == agentCapabilities+", "+agentCapabilities+" (effective, bounding)"
	return v, nil
}
