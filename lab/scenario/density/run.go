// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package density

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Pods is how many there are: what a kubelet takes by default, less the system's.
const Pods = 100

// Config is what a run needs of the cluster.
type Config struct {
	Client kubernetes.Interface
	Node   string
	// Shell runs a script by sh as root on the node. One runs at a time.
	Shell func(ctx context.Context, script string, args ...string) (string, error)
	Image string
	// Out receives how many pods are ready so far.
	Out io.Writer
}

// Cost is what a hundred pods cost the agent.
type Cost struct {
	// Look is the processor's time in seconds that one look at all pods takes,
	// with everything else that the agent does meanwhile. Looks is of how many.
	Look  float64
	Looks int
}

// Share is how much of one processor it takes to look every so often, in percent.
func (c Cost) Share(every time.Duration) float64 { return c.Look / every.Seconds() * 100 }

// namespace holds everything of a run.
const namespace = "plumblab-density"

const templateName = "nic"

// patience is how long the pods may take to run, settle how long the agent is
// left alone then, window how long it is watched.
const (
	patience = 15 * time.Minute
	settle   = 10 * time.Second
	window   = 60 * time.Second
)

type run struct{ Config }

// Measure starts the pods, reads what the agent spends, and leaves nothing of its
// own.
func Measure(ctx context.Context, c Config) (cost Cost, err error) {
	r := &run{c}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = errors.Join(err, r.cleanUp(clean))
	}()
	if err := r.cleanUp(ctx); err != nil { // of a run before that was killed
		return cost, err
	}
	if err := r.start(ctx); err != nil {
		return cost, err
	}
	if err := wait(ctx, settle); err != nil {
		return cost, err
	}
	before, err := r.spent(ctx)
	if err != nil {
		return cost, err
	}
	if err := wait(ctx, window); err != nil {
		return cost, err
	}
	after, err := r.spent(ctx)
	if err != nil {
		return cost, err
	}
	if before.pid != after.pid || after.looks <= before.looks {
		return cost, fmt.Errorf("the agent was process %d after %d looks and is %d after %d: want the same one, and more looks", before.pid, before.looks, after.pid, after.looks)
	}
	cost.Looks = after.looks - before.looks
	cost.Look = (after.seconds - before.seconds) / float64(cost.Looks)
	return cost, nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// start makes the links and the pods, and waits until all claims are called kept.
func (r *run) start(ctx context.Context) error {
	if _, err := r.Shell(ctx, addLinks, fmt.Sprint(Pods)); err != nil {
		return fmt.Errorf("make stand-ins: %w", err)
	}
	_, err := r.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: templateName}}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "nic", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "dra.net"}}}
	if _, err := r.Client.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, template, metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := range Pods {
		if _, err := r.Client.CoreV1().Pods(namespace).Create(ctx, r.pod(i), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	said := time.Now()
	err = harness.WaitFor(ctx, time.Second, patience, func() (bool, error) {
		claims, err := r.Client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		n := kept(claims.Items)
		if time.Since(said) > time.Minute {
			said = time.Now()
			fmt.Fprintf(r.Out, "  · %d of %d pods\n", n, Pods)
		}
		return n == Pods, nil
	})
	if err != nil {
		return fmt.Errorf("wait until %d pods run and are called as claimed: %w", Pods, err)
	}
	return nil
}

// kept counts the claims whose pods the agent calls as claimed.
func kept(claims []resourceapi.ResourceClaim) int {
	n := 0
	for _, c := range claims {
		for _, d := range c.Status.Devices {
			for _, condition := range d.Conditions {
				if condition.Type == "AsClaimed" && condition.Status == metav1.ConditionTrue {
					n++
				}
			}
		}
	}
	return n
}

func (r *run) pod(i int) *corev1.Pod {
	const name = "devices"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("one-of-many-%d", i), Namespace: namespace},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: r.Node},
			// Not 0: such a pod is gone for the API server before the node has let it go.
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			AutomountServiceAccountToken:  ptr.To(false),
			DNSPolicy:                     corev1.DNSDefault, // the lab has no cluster DNS
			ResourceClaims:                []corev1.PodResourceClaim{{Name: name, ResourceClaimTemplateName: ptr.To(templateName)}},
			Containers: []corev1.Container{{
				Name: "main", Image: r.Image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sleep", "100000"},
				Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: name}}},
			}},
		},
	}
}

// cleanUp removes what a run makes. Links go last: pods give theirs back first.
func (r *run) cleanUp(ctx context.Context) error {
	if err := harness.DeleteNamespace(ctx, r.Client, namespace, patience); err != nil {
		return err
	}
	if out, err := r.Shell(ctx, removeLinks); err != nil {
		return fmt.Errorf("remove stand-ins: %w: %s", err, strings.TrimSpace(out))
	}
	return nil
}
