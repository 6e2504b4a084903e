// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/deviceplugin"
	"plumbline.dev/plumbline/internal/topoview/published"
)

// answerAtMost is how long a node's agent may take to answer, as verify has it (its nodePatience).
const answerAtMost = 30 * time.Second

// addPlugins adds to a view of the node what its device plugins gave to pods. The node's
// agent alone can tell; where device plugins offer no GPU it is not asked.
func (s nodeSource) addPlugins(ctx context.Context, v *published.View) {
	n, err := s.client.CoreV1().Nodes().Get(ctx, s.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return // its slices are about to go
	}
	if err != nil {
		v.Options.Notes = append(v.Options.Notes, "whether a device plugin gives GPUs of the node away is not known: "+cmdutil.OneLine(err))
		return
	}
	offered := pluginGPUs(n)
	if len(offered) == 0 {
		return
	}
	report, err := s.askPlugins(ctx)
	if err == nil {
		err = v.AddPlugins(report)
	}
	if err != nil {
		v.PluginsUnknown(offered, s.askedForGPUs(ctx), cmdutil.OneLine(err))
	}
}

func (s nodeSource) askPlugins(ctx context.Context) (*deviceplugin.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, answerAtMost)
	defer cancel()
	out, err := s.agents.Ask(ctx, s.node, "plumbline-agent", "device-plugins")
	if err != nil {
		return nil, err
	}
	var report deviceplugin.Report
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, fmt.Errorf("read the answer of the agent on node %s: %w", s.node, err)
	}
	return &report, nil
}

// pluginGPUs are the GPUs that the node's device plugins have registered, each resource
// with its number. Those of a plugin that has gone are counted: pods may have them still.
func pluginGPUs(n *corev1.Node) []string {
	var offered []string
	for _, name := range slices.Sorted(maps.Keys(n.Status.Capacity)) {
		quantity := n.Status.Capacity[name]
		if _, gpu := deviceplugin.GPUVendor(string(name)); gpu && quantity.Value() > 0 {
			offered = append(offered, fmt.Sprintf("%d %s", quantity.Value(), name))
		}
	}
	return offered
}

// askedForGPUs are the pods of the node that asked for a device plugin's GPUs, as far as
// they may be listed.
func (s nodeSource) askedForGPUs(ctx context.Context) []string {
	list, err := s.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", s.node).String(),
	})
	if err != nil {
		return nil // what is missing is said by the caller
	}
	var pods []string
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.NodeName != s.node || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		asked := map[string]int64{}
		for _, c := range p.Spec.Containers {
			for name, n := range c.Resources.Limits {
				if _, gpu := deviceplugin.GPUVendor(string(name)); gpu && !byClaim(p, c.Name, string(name)) {
					asked[string(name)] += n.Value()
				}
			}
		}
		for _, resource := range slices.Sorted(maps.Keys(asked)) {
			pods = append(pods, fmt.Sprintf("%s/%s (%d %s)", p.Namespace, p.Name, asked[resource], resource))
		}
	}
	slices.Sort(pods)
	return pods
}

// byClaim says whether a DRA driver serves a container's extended resource.
func byClaim(p *corev1.Pod, container, resource string) bool {
	e := p.Status.ExtendedResourceClaimStatus
	return e != nil && slices.ContainsFunc(e.RequestMappings, func(m corev1.ContainerExtendedResourceRequest) bool {
		return m.ContainerName == container && m.ResourceName == resource
	})
}
