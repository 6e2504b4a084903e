// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

const (
	// ownLabel is on all that the chart brings.
	ownLabel = "app.kubernetes.io/name=plumbline"
	// ownGroup is of our definitions, and of what the operator writes to nodes.
	ownGroup = "plumbline.dev"

	byHelm    = "helm uninstall plumbline -n plumbline-system"
	byCleanup = "plumbline-operator cleanup --kubeconfig ~/.kube/config"
	byPods    = "end the pods that hold the claims"
	byDelete  = "kubectl delete "
)

// drivers are those of plumbline that nobody else serves on a cluster.
var drivers = []string{slicecodec.DriverNet, slicecodec.DriverCPU}

// cluster is what is read of one.
type cluster struct {
	discovery discovery.DiscoveryInterface
	metadata  metadata.Interface
	core      kubernetes.Interface
}

func (o *options) connect() (c cluster, err error) {
	config, err := o.cluster.ToRESTConfig()
	if err != nil {
		return c, err
	}
	config.QPS, config.Burst = 50, 100 // one list for each kind
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return c, fmt.Errorf("connect to the cluster: %w", err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return c, fmt.Errorf("connect to the cluster: %w", err)
	}
	return cluster{discovery: core.Discovery(), metadata: meta, core: core}, nil
}

// look reads all kinds of the cluster.
func (c cluster) look(ctx context.Context) (Report, error) {
	kinds, err := c.kinds()
	if err != nil {
		return Report{}, err
	}
	r := Report{Left: []Leftover{}}
	for _, kind := range kinds {
		found, err := c.labelled(ctx, kind)
		r.add(kind.GroupResource().String(), found, err)
	}
	for what, list := range map[string]func(context.Context) ([]Leftover, error){
		"customresourcedefinitions.apiextensions.k8s.io": c.definitions, "resourceslices.resource.k8s.io": c.slices,
		"resourceclaims.resource.k8s.io": c.claims, "nodes": c.nodes,
	} {
		found, err := list(ctx)
		r.add(what, found, err)
	}
	slices.SortFunc(r.Left, func(a, b Leftover) int { return strings.Compare(a.Kind+"\x00"+a.Name, b.Kind+"\x00"+b.Name) })
	r.Left = slices.Compact(r.Left)
	slices.Sort(r.Unknown)
	r.Unknown = slices.Compact(r.Unknown)
	return r, nil
}

// add notes what was found of a kind, or that it may not be read. One that went
// meanwhile, or has no list, has nothing.
func (r *Report) add(kind string, found []Leftover, err error) {
	switch {
	case err == nil:
		r.Left = append(r.Left, found...)
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
	case apierrors.IsForbidden(err):
		r.Unknown = append(r.Unknown, kind+": may not be listed; want the rights of a cluster's administrator")
	default:
		r.Unknown = append(r.Unknown, kind+": "+err.Error())
	}
}

// kinds are all that the API server lists. Events tell what was, and pods go with what
// made them.
func (c cluster) kinds() ([]schema.GroupVersionResource, error) {
	lists, err := discovery.ServerPreferredResources(c.discovery)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("ask for the kinds of the cluster: %w", err)
	}
	var kinds []schema.GroupVersionResource
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists) {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("ask for the kinds of the cluster: %w", err)
		}
		for _, resource := range list.APIResources {
			if resource.Name != "events" && resource.Name != "pods" {
				kinds = append(kinds, group.WithResource(resource.Name))
			}
		}
	}
	return kinds, nil
}

func (c cluster) labelled(ctx context.Context, kind schema.GroupVersionResource) ([]Leftover, error) {
	list, err := c.metadata.Resource(kind).List(ctx, metav1.ListOptions{LabelSelector: ownLabel})
	if err != nil {
		return nil, err
	}
	var found []Leftover
	for i := range list.Items {
		found = append(found, leftover(kind.GroupResource().String(), &list.Items[i].ObjectMeta))
	}
	return found, nil
}

func leftover(kind string, o *metav1.ObjectMeta) Leftover {
	l := Leftover{Kind: kind, Name: o.Name, Fix: byHelm}
	if o.Namespace != "" {
		l.Name = o.Namespace + "/" + o.Name
	}
	// What Helm leaves since others may use it, or since it holds other things.
	switch kind {
	case "deviceclasses.resource.k8s.io":
		l.Fix = byDelete + "deviceclasses -l " + ownLabel
	case "namespaces":
		l.Fix = byDelete + "namespace " + o.Name
	}
	return l
}

// definitions are those of our group, whose objects go with them.
func (c cluster) definitions(ctx context.Context) ([]Leftover, error) {
	kind := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	list, err := c.metadata.Resource(kind).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var found []Leftover
	for i := range list.Items {
		if strings.HasSuffix(list.Items[i].Name, "."+ownGroup) {
			found = append(found, leftover(kind.GroupResource().String(), &list.Items[i].ObjectMeta))
		}
	}
	return found, nil
}

// slices are of our drivers; the kubelet deletes them half a minute after an agent's end.
func (c cluster) slices(ctx context.Context) ([]Leftover, error) {
	var found []Leftover
	for _, driver := range drivers {
		list, err := c.core.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + driver})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if list.Items[i].Spec.Driver == driver {
				found = append(found, Leftover{
					Kind: "resourceslices.resource.k8s.io", Name: list.Items[i].Name, Found: "of " + driver,
					Fix: byDelete + "resourceslices --field-selector spec.driver=" + driver,
				})
			}
		}
	}
	return found, nil
}

// claims are those with devices of our drivers.
func (c cluster) claims(ctx context.Context) ([]Leftover, error) {
	var found []Leftover
	err := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.core.ResourceV1().ResourceClaims("").List(ctx, o)
	}).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		claim, ok := object.(*resourceapi.ResourceClaim)
		if !ok {
			return errors.New("the list of ResourceClaims has something else in it")
		}
		if held := heldBy(claim); len(held) > 0 {
			found = append(found, Leftover{
				Kind: "resourceclaims.resource.k8s.io", Name: claim.Namespace + "/" + claim.Name, Found: "has devices of " + strings.Join(held, " and "), Fix: byPods,
			})
		}
		return nil
	})
	return found, err
}

func heldBy(claim *resourceapi.ResourceClaim) []string {
	held := map[string]bool{}
	if claim.Status.Allocation != nil {
		for _, result := range claim.Status.Allocation.Devices.Results {
			if slices.Contains(drivers, result.Driver) {
				held[result.Driver] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(held))
}

// nodes are those with labels, annotations or conditions of ours.
func (c cluster) nodes(ctx context.Context) ([]Leftover, error) {
	var found []Leftover
	err := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.core.CoreV1().Nodes().List(ctx, o)
	}).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		node, ok := object.(*corev1.Node)
		if !ok {
			return errors.New("the list of nodes has something else in it")
		}
		var ours []string
		for what, keys := range map[string][]string{
			"label": slices.Collect(maps.Keys(node.Labels)), "annotation": slices.Collect(maps.Keys(node.Annotations)), "condition": conditions(node),
		} {
			for _, key := range keys {
				if strings.HasPrefix(key, ownGroup+"/") {
					ours = append(ours, what+" "+key)
				}
			}
		}
		if slices.Sort(ours); len(ours) > 0 {
			found = append(found, Leftover{Kind: "nodes", Name: node.Name, Found: "has " + strings.Join(ours, ", "), Fix: byCleanup})
		}
		return nil
	})
	return found, err
}

func conditions(node *corev1.Node) []string {
	var types []string
	for _, c := range node.Status.Conditions {
		types = append(types, string(c.Type))
	}
	return types
}
