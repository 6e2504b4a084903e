// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// inCluster is the source of what was read from the API server.
const inCluster = "cluster"

// readCluster reads the objects named, and the device classes they ask for.
func readCluster(ctx context.Context, client kubernetes.Interface, namespace string, refs []cmdutil.Reference) (*inputs, error) {
	in := &inputs{classes: map[string]*object{}}
	for _, ref := range refs {
		o, err := get(ctx, client, namespace, ref)
		if err != nil {
			return nil, err
		}
		in.add(o)
	}
	for _, o := range in.objects {
		if o.claim == nil {
			continue
		}
		for _, r := range o.requests() {
			if in.classes[r.class] != nil {
				continue
			}
			class, err := get(ctx, client, "", cmdutil.Reference{Kind: cmdutil.KindClass, Name: r.class})
			// A class that is gone, or that one may not read, is not known.
			if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			in.classes[r.class] = class
		}
	}
	return in, in.readSlices(ctx, client)
}

// readSlices looks how CPUs are offered. Who may not read slices does not know.
func (in *inputs) readSlices(ctx context.Context, client kubernetes.Interface) error {
	slices, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + slicecodec.DriverCPU})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the ResourceSlices of %s: %w", slicecodec.DriverCPU, err)
	}
	for i := range slices.Items {
		in.addSlice(&slices.Items[i])
	}
	return nil
}

// readPools lists the pools of addresses. Who may not know, and a cluster that has no such
// kind, has none that are known.
func (in *inputs) readPools(ctx context.Context, config *rest.Config) error {
	client, err := kube.OwnClient(config)
	if err != nil {
		return err
	}
	var list nets.NetworkAddressPoolList
	err = client.Get().Resource("networkaddresspools").Do(ctx).Into(&list)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the NetworkAddressPools: %w", err)
	}
	in.pools, in.allPools = map[string]bool{}, true
	for i := range list.Items {
		in.pools[list.Items[i].Name] = true
	}
	return nil
}

func get(ctx context.Context, client kubernetes.Interface, namespace string, ref cmdutil.Reference) (*object, error) {
	o := &object{source: inCluster, kind: ref.Kind, namespace: namespace, name: ref.Name}
	resources := client.ResourceV1()
	var err error
	switch ref.Kind {
	case cmdutil.KindClaim:
		c, e := resources.ResourceClaims(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err = e; err == nil {
			o.setClaim(c)
		}
	case cmdutil.KindTemplate:
		t, e := resources.ResourceClaimTemplates(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err = e; err == nil {
			o.setTemplate(t)
		}
	case cmdutil.KindClass:
		o.namespace = ""
		c, e := resources.DeviceClasses().Get(ctx, ref.Name, metav1.GetOptions{})
		if err = e; err == nil {
			o.class = &c.Spec
		}
	default:
		err = errors.New("no such kind")
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", o, err)
	}
	return o, nil
}
