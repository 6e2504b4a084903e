// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/host/netns"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/verify"
	"plumbline.dev/plumbline/internal/verify/collect"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// ownSys is where every host has its own /sys.
const ownSys = "/sys"

// host reads the host that this program runs on.
type host struct {
	client kubernetes.Interface
	node   string
	// options say where its /proc and /sys are.
	options collect.Options
	// sample is how long threads are watched.
	sample time.Duration
}

// source is where the command line says that facts come from.
func (o *options) source(client kubernetes.Interface) (source, error) {
	if !o.host {
		known, err := cmdutil.AgentsOf(o.cluster, client, o.agents)
		if err != nil {
			return nil, err
		}
		return orConditions{agents{known}, client}, nil
	}
	h := host{client: client, node: o.node, sample: o.sample, options: collect.Options{Proc: o.proc, Sys: o.sys}}
	if h.node == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("--host: which node is this? --node says it: %w", err)
		}
		h.node, o.node = name, name
	}
	return h, nil
}

// machine is the host's. With its own /sys come the kernel's links, which show the
// NICs that the node needs itself.
func (h host) machine(ctx context.Context) (*model.Machine, error) {
	sources := inventory.Sources{Sys: os.DirFS(h.options.Sys)}
	if h.options.Sys == ownSys {
		links, err := inventory.OpenNetlink(netns.Current, nil)
		if err != nil {
			return nil, err
		}
		defer links.Close()
		sources.Links = links
	}
	m, _, err := inventory.Scan(ctx, sources, inventory.Options{Name: h.node, DataDirect: inventory.NewDataDirect()})
	return m, err
}

func (h host) look(ctx context.Context, node, _ string, pods []corev1.Pod) (_ *verify.Report, err error) {
	if node != h.node {
		return nil, fmt.Errorf("this host is node %s: node %s cannot be read here", h.node, node)
	}
	m, err := h.machine(ctx)
	if err != nil {
		return nil, fmt.Errorf("read this host: %w", err)
	}
	kernel, err := collect.Open(h.options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, kernel.Close()) }()
	expected, err := h.expected(ctx, pods)
	if err != nil {
		return nil, err
	}
	return h.watch(ctx, m, kernel, expected)
}

// watch looks twice: where threads ran is known of the time between.
func (h host) watch(ctx context.Context, m *model.Machine, kernel verify.Kernel, expected []expect.Pod) (*verify.Report, error) {
	verify.Check(ctx, m, kernel, expected, false)
	if err := verify.Sleep(ctx, h.sample); err != nil {
		return nil, err
	}
	results, err := verify.Confirm(func() []verify.Result { return verify.Check(ctx, m, kernel, expected, true) },
		func() error { return verify.Sleep(ctx, verify.ConfirmAfter) })
	if err != nil {
		return nil, err
	}
	return verify.NewReport(m, h.node, time.Now(), results), nil
}

func (h host) expected(ctx context.Context, pods []corev1.Pod) ([]expect.Pod, error) {
	list, err := h.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, h.node).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list the ResourceSlices of node %s: %w", h.node, err)
	}
	published := expect.PublishedIn(list.Items)
	var expected []expect.Pod
	for i := range pods {
		claims := map[string]*resourceapi.ResourceClaim{}
		for _, name := range expect.ClaimNames(&pods[i]) {
			// One that is not there is said to be missing.
			if c, err := h.client.ResourceV1().ResourceClaims(pods[i].Namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
				claims[name] = c
			}
		}
		expected = append(expected, expect.PodOf(&pods[i], claims, published))
	}
	return expected, nil
}
