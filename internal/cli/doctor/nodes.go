// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/doctor"
	"plumbline.dev/plumbline/internal/plural"
	"plumbline.dev/plumbline/internal/printable"
)

// checkReport is the check that a node has a HostReport which can be believed.
const checkReport = "report"

// Cluster is what the command prints of nodes.
type Cluster struct {
	// Nodes come worst first.
	Nodes []Node `json:"nodes"`
	// Groups are nodes that were compared with each other.
	Groups []doctor.Group `json:"groups,omitempty"`
	// Gone are HostReports of nodes that are gone; nothing of them counts.
	Gone []string `json:"gone,omitempty"`
}

// Node is what is known of a node.
type Node struct {
	Node string `json:"node"`
	// Changed is when the HostReport last changed; nil without one that can be
	// believed.
	Changed *metav1.Time `json:"changed,omitempty"`
	// OK, Wrong and Unknown count findings, those that a report has no room for among
	// them.
	OK      int `json:"ok"`
	Wrong   int `json:"wrong"`
	Unknown int `json:"unknown"`
	// Findings come worst first.
	Findings []hosts.Finding `json:"findings"`

	profile *hosts.HostProfile
}

// runNodes tells of nodes of a cluster.
func (o *options) runNodes(ctx context.Context, want *hosts.HostProfile, out io.Writer) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	s, err := o.read(ctx, c)
	if err != nil {
		return err
	}
	if o.learn != "" {
		return o.learnFrom(s, out)
	}
	cluster := s.cluster(want, o.node == "")
	if o.labels != "" || o.node != "" {
		cluster.Gone = nil // nobody knows which labels a node had that is gone
	}
	if o.output != "text" {
		err = cmdutil.Encode(out, o.output, cluster)
	} else {
		err = writeCluster(out, cluster, o.all)
	}
	if err != nil {
		return err
	}
	wrong := 0
	for _, n := range cluster.Nodes {
		wrong += n.Wrong
	}
	return wrongIs(wrong)
}

func (o *options) read(ctx context.Context, c *client) (seen, error) {
	if o.node != "" {
		return c.one(ctx, o.node)
	}
	s, err := c.all(ctx, o.labels)
	if err == nil && len(s.nodes) == 0 && o.labels != "" {
		return s, fmt.Errorf("no node has the labels %s", o.labels)
	}
	return s, err
}

// learnFrom writes the profile of the one node that was read.
func (o *options) learnFrom(s seen, out io.Writer) error {
	n := s.node(&s.nodes[0], nil)
	if n.profile == nil {
		return fmt.Errorf("--learn: %s", n.Findings[0].Found)
	}
	return o.write(n.Node, *n.profile, n.Wrong, out)
}

// cluster is what there is to say of all nodes.
func (s seen) cluster(want *hosts.HostProfile, compared bool) Cluster {
	c := Cluster{Nodes: []Node{}}
	var peers []doctor.Peer
	for i := range s.nodes {
		node := s.node(&s.nodes[i], want)
		if node.profile != nil {
			kind := printable.Text(s.nodes[i].Labels[corev1.LabelInstanceTypeStable])
			peers = append(peers, doctor.Peer{Name: node.Node, Type: kind, Profile: *node.profile})
		}
		c.Nodes = append(c.Nodes, node)
		delete(s.reports, s.nodes[i].Name)
	}
	c.Gone = slices.Sorted(maps.Keys(s.reports))
	for i := range c.Gone {
		c.Gone[i] = printable.Text(c.Gone[i])
	}
	var odd map[string][]hosts.Finding
	if compared {
		c.Groups, odd = doctor.Compare(peers)
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.add(odd[n.Node]...)
		slices.SortStableFunc(n.Findings, func(a, b hosts.Finding) int { return cmp.Compare(rank(a), rank(b)) })
	}
	slices.SortFunc(c.Nodes, worse)
	return c
}

// node is what there is to say of one node by itself.
func (s seen) node(n *corev1.Node, want *hosts.HostProfile) Node {
	node := Node{Node: printable.Text(n.Name), Findings: []hosts.Finding{}}
	report := s.reports[n.Name]
	if f, believed := s.believe(n, report); f != nil {
		node.add(*f)
		if !believed {
			return node
		}
	}
	r := &report.Report
	node.Changed = &r.Changed
	node.OK, node.Wrong, node.Unknown = node.OK+r.OK, node.Wrong+r.Wrong, node.Unknown+r.Unknown
	for _, f := range r.Findings {
		node.Findings = append(node.Findings, shown(f))
	}
	if more := r.Wrong + r.Unknown - len(r.Findings); more > 0 {
		node.Findings = append(node.Findings, hosts.Finding{
			Check: checkReport, Severity: hosts.Information, Verdict: hosts.Unknown, Source: sourceOf(n.Name),
			Found: fmt.Sprintf("%s than the report has room for", plural.Count(more, "more finding", "more findings")),
			Want:  "all findings", Fix: "run plumbline doctor on the host",
		})
	}
	node.profile = shownProfile(r.Profile)
	if f := s.gpus.finding(n, *node.profile); f != nil {
		node.add(*f)
	}
	if want != nil {
		for _, f := range doctor.Expect(*want, *node.profile) {
			node.add(shown(f))
		}
	}
	return node
}

// add adds findings that no report counts.
func (n *Node) add(findings ...hosts.Finding) {
	for _, f := range findings {
		n.Findings = append(n.Findings, f)
		switch f.Verdict {
		case hosts.OK:
			n.OK++
		case hosts.Wrong:
			n.Wrong++
		default:
			n.Unknown++
		}
	}
}

// believe says what is the matter with a node's report, and whether what it says is of
// the node as it is now. A report is written when something changed: its age alone says
// nothing, as long as there is an agent that would write another.
func (s seen) believe(n *corev1.Node, r *hosts.HostReport) (f *hosts.Finding, believed bool) {
	f = &hosts.Finding{Check: checkReport, Severity: hosts.Functional, Verdict: hosts.Unknown, Source: sourceOf(n.Name)}
	if r == nil {
		f.Found, f.Want = "no HostReport"+s.agents.whyNone(n.Name), "an agent that reports"
		f.Fix = s.agents.fix(n.Name)
		return f, false
	}
	f.Want, f.Fix = "a report of the node as it is now", s.agents.fix(n.Name)
	for _, owner := range r.OwnerReferences {
		if owner.Kind == "Node" && owner.UID != n.UID {
			f.Found = "the HostReport is of a node of that name that is gone" + s.agents.whyNone(n.Name)
			return f, false
		}
	}
	if k, now := r.Report.Profile.Kernel, n.Status.NodeInfo.KernelVersion; k != "" && now != "" && k != now {
		f.Found = printable.Text(fmt.Sprintf("the HostReport is older than the node's boot: it is of kernel %s, the node runs %s", k, now)) + s.agents.whyNone(n.Name)
		return f, false
	}
	changed := r.Report.Changed.UTC().Format(time.RFC3339)
	switch {
	case s.agents.unknown != "":
		return nil, true
	case s.agents.of[n.Name] == noAgent, s.agents.of[n.Name] == agentObserves:
		f.Found = "the HostReport is of " + changed + ", and no agent runs there any more that would renew it"
		return f, true
	case s.agents.of[n.Name] == agentNotReady:
		f.Found = "the HostReport is of " + changed + ", and the agent there is not ready"
		return f, true
	}
	return nil, true
}

func sourceOf(node string) string { return "HostReport " + printable.Text(node) }

// whyNone says why a node has no report of its own.
func (a agents) whyNone(node string) string {
	if a.unknown != "" {
		return "; whether an agent runs there is not known: " + printable.Text(a.unknown)
	}
	switch a.of[node] {
	case agentNotReady:
		return ": the agent there is not ready"
	case agentObserves:
		return ": the agent there only observes"
	case agentReady:
		return ", though the agent there is ready"
	}
	return ": no agent of plumbline runs there"
}

// fix says how a node comes to a report.
func (a agents) fix(node string) string {
	switch a.of[node] {
	case agentReady:
		return "see the agent's log; hostReport.interval of the chart must not be 0"
	case agentObserves:
		return "run plumbline doctor on the host; an agent that only observes reports nothing"
	}
	return "kubectl -n " + a.namespace + " get pods -o wide: what keeps the agent's pod from the node, or from being ready?"
}

// shown is a finding whose words a terminal may show: links and devices name themselves.
func shown(f hosts.Finding) hosts.Finding {
	for _, text := range []*string{&f.Check, &f.Subject, &f.Found, &f.Source, &f.Want, &f.Fix, (*string)(&f.Severity), (*string)(&f.Verdict)} {
		*text = printable.Text(*text)
	}
	return f
}

func shownProfile(p hosts.HostProfile) *hosts.HostProfile {
	p = *p.DeepCopy()
	p.Kernel = printable.Text(p.Kernel)
	p.Settings = shownSettings(p.Settings)
	for i := range p.Devices {
		d := &p.Devices[i]
		d.Kind, d.ID, d.Model = printable.Text(d.Kind), printable.Text(d.ID), printable.Text(d.Model)
		d.Settings = shownSettings(d.Settings)
	}
	return &p
}

func shownSettings(all map[string]string) map[string]string {
	if all == nil {
		return nil
	}
	copied := make(map[string]string, len(all))
	for name, value := range all {
		copied[printable.Text(name)] = printable.Text(value)
	}
	return copied
}

// severities are all, the worst first.
var severities = []hosts.Severity{hosts.Functional, hosts.Performance, hosts.Information}

// rank orders findings: what is wrong before what is unknown, what does not work before
// what is slow.
func rank(f hosts.Finding) int {
	verdict := slices.Index([]hosts.Verdict{hosts.Wrong, hosts.Unknown, hosts.OK}, f.Verdict)
	severity := slices.Index(severities, f.Severity)
	return 2*len(severities)*verdict + severity
}

// worse orders nodes: by how many findings are wrong of the worst severity, then of the
// next; one of which nothing is known is worse than one that is slow.
func worse(a, b Node) int {
	counts := func(n Node) []int {
		wrong := map[hosts.Severity]int{}
		for _, f := range n.Findings {
			if f.Verdict == hosts.Wrong {
				wrong[f.Severity]++
			}
		}
		unreported := 0
		if n.profile == nil {
			unreported = 1
		}
		return []int{wrong[hosts.Functional], unreported, wrong[hosts.Performance], wrong[hosts.Information], n.Wrong, n.Unknown}
	}
	return cmp.Or(slices.Compare(counts(b), counts(a)), cmp.Compare(a.Node, b.Node))
}
