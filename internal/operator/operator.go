// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	nets "plumbline.dev/plumbline/api/net/v1alpha1"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/metrics"
	"plumbline.dev/plumbline/internal/operator/addresspools"
	"plumbline.dev/plumbline/internal/operator/explainer"
	"plumbline.dev/plumbline/internal/operator/installation"
	"plumbline.dev/plumbline/internal/operator/nodestatus"
)

// Name is the program's, that of its Deployment, ServiceAccount and Lease, and the
// source of its events.
const Name = "plumbline-operator"

// Options are what the program is told.
type Options struct {
	// Kubeconfig is empty inside a cluster.
	Kubeconfig string
	// Namespace is the installation's: the Lease and the agents are there.
	Namespace string
	// Explain has pods told why their claims cannot be allocated.
	Explain bool
	// FeatureGates are those of the scheduler that differ from the defaults of the
	// cluster's version, such as "DRAListTypeAttributes=true".
	FeatureGates string
	// Hosts has HostReports made into conditions of nodes, and the Installation
	// kept; the kinds must be defined.
	Hosts bool
	// NodeLabels has the labels of Node Feature Discovery set on nodes that it does
	// not look after.
	NodeLabels bool
	// Version is told in the Installation.
	Version string
	// Socket is where the program answers its own commands.
	Socket string
	// MetricsAddress is where figures are served to scrapers, ADDRESS:PORT; empty:
	// nowhere. MetricsCertDir holds tls.crt and tls.key for it; empty: the program
	// signs for itself.
	MetricsAddress, MetricsCertDir string
}

// DefaultOptions are those of a pod.
func DefaultOptions() Options {
	return Options{Explain: true, Hosts: true, NodeLabels: true, Socket: "/run/plumbline/operator.sock"}
}

// Validate refuses what cannot be meant.
func (o Options) Validate() error {
	if err := explainer.CheckGates(o.FeatureGates); err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	if o.Namespace == "" {
		return errors.New("--namespace: empty: want the namespace of the installation, which has the Lease of its operator")
	}
	if !o.Explain && !o.Hosts {
		return errors.New("--explain and --hosts: both false: there is nothing to do")
	}
	return nil
}

// How long another replica waits before it takes over from one that died, and how often
// the leader writes its Lease: an idle operator writes nothing else.
const (
	leaseDuration = 60 * time.Second
	renewDeadline = 45 * time.Second
	retryPeriod   = 15 * time.Second
)

// Run runs the controllers until ctx ends, while this replica leads.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer func() { stop(); serving.Wait() }()
	clientset, config, err := kube.ConnectAs(Name, o.Kubeconfig)
	if err != nil {
		return err
	}
	figures := metrics.NewExplainer()
	state := &readiness{}
	if err := serve(ctx, o, clientset, figures, state); err != nil {
		return err
	}
	events := kube.NewComponentEvents(ctx, Name, "")
	serving.Go(func() { events.Run(ctx, clientset) })
	m, err := newManager(ctx, o, config)
	if err != nil {
		return fmt.Errorf("start the controllers: %w", err)
	}
	state.follow(ctx, m)
	if err := addControllers(m, o, clientset, events, figures); err != nil {
		return err
	}
	err = m.Start(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func addControllers(m manager.Manager, o Options, clientset kubernetes.Interface, events *kube.Events, figures *metrics.Explainer) error {
	if o.Explain {
		// Of the leader alone: two would tell pods twice.
		run := manager.RunnableFunc(func(ctx context.Context) error {
			return explainer.Run(ctx, explainer.Options{Client: clientset, Events: events, FeatureGates: o.FeatureGates, Metrics: figures})
		})
		if err := m.Add(run); err != nil {
			return err
		}
	}
	if !o.Hosts {
		return nil
	}
	if err := nodestatus.Add(m, nodestatus.Options{Labels: o.NodeLabels}); err != nil {
		return err
	}
	if err := addresspools.Add(m); err != nil {
		return err
	}
	return installation.Add(m, installation.Options{Namespace: o.Namespace, Version: o.Version})
}

// newManager connects the controllers. An API server that is away is waited for.
func newManager(ctx context.Context, o Options, config *rest.Config) (manager.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	options := manager.Options{
		Scheme:         scheme,
		Logger:         klog.FromContext(ctx),
		Metrics:        server.Options{BindAddress: "0"}, // ours has its own endpoint
		LeaderElection: true, LeaderElectionID: Name, LeaderElectionNamespace: o.Namespace,
		LeaderElectionResourceLock: resourcelock.LeasesResourceLock, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: new(leaseDuration), RenewDeadline: new(renewDeadline), RetryPeriod: new(retryPeriod),
		// Names of controllers must be unique for the library's metrics alone.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Node{}: {Transform: nodestatus.Trim},
				&corev1.Pod{}: {
					Namespaces: map[string]cache.Config{o.Namespace: {}}, Label: labels.SelectorFromSet(installation.AgentLabels),
					Transform: installation.TrimPod,
				},
				&appsv1.DaemonSet{}:          {Namespaces: map[string]cache.Config{o.Namespace: {}}},
				&resourceapi.ResourceSlice{}: {Transform: installation.TrimSlice},
			},
		},
	}
	for {
		m, err := ctrl.NewManager(anyContent(config), options)
		if err == nil || ctx.Err() != nil {
			return m, err
		}
		klog.FromContext(ctx).Error(err, "the API server cannot be asked; asking again")
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(connectRetry):
		}
	}
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, resourceapi.AddToScheme, hosts.AddToScheme, nets.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// anyContent leaves the encoding to the library: our own kinds have no protobuf, and it
// chooses that for those that have.
func anyContent(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "", ""
	return config
}

// connectRetry is the time between two requests to an API server that is away.
const connectRetry = 5 * time.Second
