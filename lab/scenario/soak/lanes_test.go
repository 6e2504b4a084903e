// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// node is one on which every pod runs with its NIC, unless a test says otherwise.
type node struct {
	client *fake.Clientset
	lanes  int
	// stuck pods do not run; leaks are lines of state that stay.
	stuck func(pods []string) string
	leaks func(pods []string) []string

	mu sync.Mutex
	// story is what was done to it, had the NICs that pods ran with, and deleted
	// when pods were.
	story   []string
	had     map[string]string
	deleted map[string]time.Time
}

func newNode(lanes int) *node {
	n := &node{
		client: fake.NewClientset(), lanes: lanes, had: map[string]string{}, deleted: map[string]time.Time{},
		stuck: func([]string) string { return "" }, leaks: func([]string) []string { return nil },
	}
	n.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		p := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		p.UID = types.UID(p.Name)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return false, nil, nil
	})
	n.client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.DeleteAction).GetName()
		n.tell("delete " + name)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.deleted[name] = time.Now()
		return false, nil, nil
	})
	return n
}

func (n *node) tell(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.story = append(n.story, what)
}

// nics are the NICs of the pods there are.
func (n *node) nics(ctx context.Context) (map[string]string, error) {
	pods, err := n.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	held := map[string]string{}
	for _, p := range pods.Items {
		held[p.Name] = strings.TrimPrefix(*p.Spec.ResourceClaims[0].ResourceClaimTemplateName, templateName+"-")
	}
	return held, nil
}

func (n *node) shell(ctx context.Context, script string, args ...string) (string, error) {
	held, err := n.nics(ctx)
	if err != nil {
		return "", err
	}
	n.mu.Lock() // not before: the client tells under a lock of its own
	defer n.mu.Unlock()
	var names []string
	for name := range held {
		names = append(names, name)
	}
	var out strings.Builder
	switch {
	case strings.HasSuffix(script, sampleScript):
		fmt.Fprintln(&out, "up")
		for _, uid := range args {
			if nic := held[uid]; nic != "" && uid != n.stuck(names) {
				n.had[uid] = nic
				fmt.Fprintf(&out, "process %s container 7 -,%s\n", uid, nic)
			}
		}
	case strings.HasSuffix(script, stateScript):
		for i := range n.lanes {
			nic := fmt.Sprintf("nic%d", i)
			if !slices.ContainsFunc(names, func(name string) bool { return held[name] == nic }) {
				fmt.Fprintf(&out, "nic %s %s mtu=1500\n", nic, nic)
			}
		}
		for _, line := range n.leaks(names) {
			fmt.Fprintln(&out, line)
		}
	default:
		n.story = append(n.story, "kill "+args[0])
	}
	return out.String(), nil
}

func (n *node) config(standIns string, faults ...Fault) Config {
	return Config{
		Client: n.client, Faults: faults, Out: new(strings.Builder),
		Node: Node{Name: "node", Lanes: n.lanes, StandIns: standIns, Shell: n.shell},
		PauseAPIServer: func() (func() error, error) {
			n.tell("pause")
			return func() error { n.tell("resume"); return nil }, nil
		},
	}
}

// live takes a plan through its lives, in a bubble of its own time.
func (n *node) live(t *testing.T, c Config, plan []Cycle) (wrong []string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRun(c)
		if err := errors.Join(r.setUp(t.Context()), r.readBefore(t.Context())); err != nil {
			t.Fatal(err)
		}
		err = r.watching(t.Context(), func() error { return r.runLanes(t.Context(), plan) })
		wrong = r.summary.Wrong
		if err == nil && r.summary.all() != len(plan) {
			t.Errorf("%d cycles lived to their end, want %d", r.summary.all(), len(plan))
		}
	})
	return wrong, err
}

// A pod that is slow holds nobody up but the next of its lane.
func TestLanesGoOnWithoutEachOther(t *testing.T) {
	n := newNode(2)
	four := false
	n.stuck = func(pods []string) string {
		if four = four || slices.Contains(pods, "cycle-4"); four {
			return ""
		}
		return "cycle-1"
	}
	plan := Plan(1, 6, []Fault{LinkRenamed}, false)
	if wrong, err := n.live(t, n.config("", LinkRenamed), plan); err != nil || len(wrong) > 0 {
		t.Errorf("%v: %q", err, wrong)
	}
}

// What else than the NIC is left of a pod may come late: the lane goes on, and the
// run ends when it has come. What stays for ever is said of the cycle.
func TestLaneGoesOnBeforeTheRestIsGone(t *testing.T) {
	for name, tt := range map[string]struct {
		stays time.Duration
		wrong string
	}{
		"a minute": {stays: time.Minute},
		"for ever": {stays: time.Hour, wrong: "cycle 1: new: file /journal/claim-1.json"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(1)
			var next time.Time // when the second pod was there
			n.leaks = func(pods []string) []string {
				if slices.Contains(pods, "cycle-2") && next.IsZero() {
					next = time.Now()
				}
				if first := n.deleted["cycle-1"]; first.IsZero() || time.Since(first) > tt.stays {
					return nil
				}
				return []string{"file /journal/claim-1.json"}
			}
			plan := []Cycle{{Number: 1, Fault: LinkRenamed, Phase: Running}, {Number: 2, Fault: LinkRenamed, Phase: Running, Delay: 10 * time.Second}}
			wrong, err := n.live(t, n.config("", LinkRenamed), plan)
			if (err != nil) != (tt.wrong != "") || !slices.Equal(wrong, slices.DeleteFunc([]string{tt.wrong}, func(s string) bool { return s == "" })) {
				t.Errorf("%v: %q, want %q", err, wrong, tt.wrong)
			}
			if waited := next.Sub(n.deleted["cycle-1"]); waited > settle/4 {
				t.Errorf("the next pod came after %s", waited)
			}
		})
	}
}

// What goes wrong is said of the cycle to which it happened, whoever lives beside
// it.
func TestWrongIsAttributed(t *testing.T) {
	for name, tt := range map[string]struct {
		// stuck is a pod that does not run, changed one whose NIC comes back so.
		stuck, changed, want string
	}{
		"no NIC":      {stuck: "cycle-3", want: "cycle 3: "},
		"NIC changed": {changed: "cycle-2", want: "cycle 2: new: nic nic"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(2)
			n.stuck = func([]string) string { return tt.stuck }
			n.leaks = func(pods []string) []string {
				if nic := n.had[tt.changed]; nic != "" && !slices.Contains(pods, tt.changed) {
					return []string{fmt.Sprintf("nic %s %s mtu=9000", nic, nic)}
				}
				return nil
			}
			plan := []Cycle{
				{Number: 1, Fault: LinkRenamed, Phase: Running, Delay: time.Minute},
				{Number: 2, Fault: LinkRenamed, Phase: Running},
				{Number: 3, Fault: LinkRenamed, Phase: Running},
			}
			wrong, err := n.live(t, n.config("", LinkRenamed), plan)
			if !errors.Is(err, errFailed) || !slices.ContainsFunc(wrong, func(w string) bool { return strings.HasPrefix(w, tt.want) }) {
				t.Errorf("%v: %q, want one that begins with %q", err, wrong, tt.want)
			}
		})
	}
}

// A stand-in dies with its pod's sandbox where no agent takes it home: an agent is
// ended before or after. A NIC does not, and nobody waits.
func TestNoAgentIsEndedWhileStandInsComeHome(t *testing.T) {
	for _, standIns := range []string{"nic*", ""} {
		t.Run("stand-ins "+standIns, func(t *testing.T) {
			n := newNode(2)
			n.leaks = func([]string) []string {
				deleted := n.deleted["cycle-2"]
				if deleted.IsZero() {
					return nil
				}
				if time.Since(deleted) < 20*time.Second {
					return []string{"nic " + n.had["cycle-2"] + " half-way"}
				}
				n.story = append(n.story, "home")
				return nil
			}
			plan := []Cycle{
				{Number: 1, Fault: AgentKilled, Phase: Running, Delay: 5 * time.Second},
				{Number: 2, Fault: LinkRenamed, Phase: Running},
			}
			if wrong, err := n.live(t, n.config(standIns, AgentKilled, LinkRenamed), plan); err != nil || len(wrong) > 0 {
				t.Fatalf("%v: %q", err, wrong)
			}
			killed, home := slices.Index(n.story, "kill plumbline-agent"), slices.Index(n.story, "home")
			if home < 0 || (killed > home) != (standIns != "") {
				t.Errorf("%q: want the kill to wait for stand-ins alone", n.story)
			}
		})
	}
}

// Two pods whose turn it is share one outage, which lasts until the later's ends.
func TestOutageIsShared(t *testing.T) {
	n := newNode(2)
	plan := []Cycle{
		{Number: 1, Fault: APIServerAway, Phase: Running},
		{Number: 2, Fault: APIServerAway, Phase: Running, Delay: time.Second},
	}
	if wrong, err := n.live(t, n.config("", APIServerAway), plan); err != nil || len(wrong) > 0 {
		t.Fatalf("%v: %q", err, wrong)
	}
	if got := slices.DeleteFunc(slices.Clone(n.story), func(s string) bool { return strings.HasPrefix(s, "delete") }); !slices.Equal(got, []string{"pause", "resume"}) {
		t.Errorf("%q, want one pause", n.story)
	}
}
