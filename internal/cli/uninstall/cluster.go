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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

const (
	// ownLabel is on all that the chart brings.
	ownLabel = "app.kubernetes.io/name=plumbline"
	// ownGroup is of our definitions, and of what the operator writes to nodes.
	ownGroup = "plumbline.dev"

	// agentManager is who writes our slices.
	agentManager = "plumbline-agent"

	byHelm    = "helm uninstall plumbline -n plumbline-system"
	byCleanup = "plumbline-operator cleanup --kubeconfig ~/.kube/config"
	byPods    = "end the pods that hold the claims"
	byDelete  = "kubectl delete "
)

// drivers are those of plumbline. DRANET and dra-driver-cpu serve them, too.
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
	config.WarningHandler = rest.NoWarnings{}
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
	r := Report{Left: []Leftover{}}
	kinds, err := c.kinds(&r)
	if err != nil {
		return Report{}, err
	}
	for _, kind := range kinds {
		found, err := c.labelled(ctx, kind)
		r.add(kind.GroupResource().String(), found, err)
	}
	for what, list := range map[string]func(context.Context) ([]Leftover, error){
		"customresourcedefinitions.apiextensions.k8s.io": c.definitions, "resourceslices.resource.k8s.io": c.slices,
		"resourceclaims.resource.k8s.io": c.claims, "nodes": c.nodes, "leases.coordination.k8s.io": c.leases,
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

// kinds are all that the API server lists; groups of which it cannot tell are noted. Events
// tell what was, and pods go with what made them.
func (c cluster) kinds(r *Report) ([]schema.GroupVersionResource, error) {
	lists, err := discovery.ServerPreferredResources(c.discovery)
	if failed, ok := discovery.GroupDiscoveryFailedErrorGroups(err); ok {
		for group, why := range failed {
			r.Unknown = append(r.Unknown, group.String()+": its kinds are not known: "+why.Error())
		}
	} else if err != nil {
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

// leases are the operator's, which leader election makes.
func (c cluster) leases(ctx context.Context) ([]Leftover, error) {
	list, err := c.core.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=plumbline-operator"})
	if err != nil {
		return nil, err
	}
	var found []Leftover
	for i := range list.Items {
		if l := &list.Items[i]; l.Name == "plumbline-operator" {
			found = append(found, Leftover{
				Kind: "leases.coordination.k8s.io", Name: l.Namespace + "/" + l.Name, Fix: byDelete + "lease -n " + l.Namespace + " " + l.Name,
			})
		}
	}
	return found, nil
}

// slices are those that agents of ours wrote; the kubelet deletes them half a minute after
// an agent's end.
func (c cluster) slices(ctx context.Context) ([]Leftover, error) {
	all, err := c.published(ctx)
	var found []Leftover
	for i := range all {
		if s := &all[i]; isOurs(s) {
			found = append(found, Leftover{Kind: "resourceslices.resource.k8s.io", Name: s.Name, Found: "of " + s.Spec.Driver, Fix: byDelete + "resourceslice " + s.Name})
		}
	}
	return found, err
}

// published are all slices of drivers of the names of ours.
func (c cluster) published(ctx context.Context) ([]resourceapi.ResourceSlice, error) {
	var all []resourceapi.ResourceSlice
	for _, driver := range drivers {
		list, err := c.core.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + driver})
		if err != nil {
			return nil, err
		}
		for _, s := range list.Items {
			if s.Spec.Driver == driver {
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// isOurs tells a slice by who wrote it, as an agent does that starts beside a rival.
func isOurs(s *resourceapi.ResourceSlice) bool {
	return slices.ContainsFunc(s.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == agentManager })
}

// claims are those with devices of our drivers. Where somebody else serves a driver, its
// claims are taken for his.
func (c cluster) claims(ctx context.Context) ([]Leftover, error) {
	published, err := c.published(ctx)
	if err != nil {
		return nil, err
	}
	foreign := map[string]bool{}
	for i := range published {
		if !isOurs(&published[i]) {
			foreign[published[i].Spec.Driver] = true
		}
	}
	var found []Leftover
	err = pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.core.ResourceV1().ResourceClaims("").List(ctx, o)
	}).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		claim, ok := object.(*resourceapi.ResourceClaim)
		if !ok {
			return errors.New("the list of ResourceClaims has something else in it")
		}
		if held := heldBy(claim, foreign); len(held) > 0 {
			found = append(found, Leftover{
				Kind: "resourceclaims.resource.k8s.io", Name: claim.Namespace + "/" + claim.Name, Found: "has devices of " + strings.Join(held, " and "), Fix: byPods,
			})
		}
		return nil
	})
	return found, err
}

func heldBy(claim *resourceapi.ResourceClaim, foreign map[string]bool) []string {
	held := map[string]bool{}
	if claim.Status.Allocation != nil {
		for _, result := range claim.Status.Allocation.Devices.Results {
			if slices.Contains(drivers, result.Driver) && !foreign[result.Driver] {
				held[result.Driver] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(held))
}

// nodes are those with what the operator writes. Labels by which people choose nodes for
// plumbline are theirs.
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
		if _, ok := node.Labels[hosts.LabelHostSetup]; ok {
			ours = append(ours, "label "+hosts.LabelHostSetup)
		}
		if _, ok := node.Annotations[hosts.AnnotationFeatureLabels]; ok {
			ours = append(ours, "annotation "+hosts.AnnotationFeatureLabels)
		}
		for _, c := range node.Status.Conditions {
			if strings.HasPrefix(string(c.Type), ownGroup+"/") {
				ours = append(ours, "condition "+string(c.Type))
			}
		}
		if slices.Sort(ours); len(ours) > 0 {
			found = append(found, Leftover{Kind: "nodes", Name: node.Name, Found: "has " + strings.Join(ours, ", "), Fix: byCleanup})
		}
		return nil
	})
	return found, err
}
