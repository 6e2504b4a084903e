// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/operator"
	"plumbline.dev/plumbline/internal/operator/explainer"
	"plumbline.dev/plumbline/internal/unixhttp"
	"plumbline.dev/plumbline/internal/version"
)

func newCommand() *cobra.Command {
	options := operator.DefaultOptions()
	options.Version = version.Version
	root := &cobra.Command{
		Use:   operator.Name,
		Short: "Explain pods that wait, and say of nodes and of the installation how they are",
		Long: `Run what plumbline needs once in a cluster.

--explain watches the pods that are not scheduled. Where the ResourceClaims of one cannot
be allocated on any node, it makes an event of the pod that says why, and what would help:
what "plumbline explain" says, in a few sentences.

--hosts makes conditions of nodes (plumbline.dev/HostReady, RDMAReady, GPUDirectReady) of
the HostReports that agents write, and keeps the status of the Installation. --node-labels
sets the labels of Node Feature Discovery (pci-10de.present, pci-15b3.present,
kernel-version.full) on nodes that it does not look after.

Any number of replicas may run: one leads, which a Lease says, and the others wait.`,
		Example: `  # against another cluster than one's own, without writing to nodes
  plumbline-operator --kubeconfig ~/.kube/config --namespace plumbline-system \
      --hosts=false --socket /tmp/operator.sock

  # where the scheduler compares lists
  plumbline-operator --namespace plumbline-system --feature-gates DRAListTypeAttributes=true

  # what it wrote
  kubectl get events -A --field-selector reason=` + explainer.Reason + `
  kubectl get installation,hostreports`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return operator.Run(cmd.Context(), options) },
	}
	f := root.Flags()
	f.StringVar(&options.Kubeconfig, "kubeconfig", "", "empty: the pod's service account")
	f.StringVar(&options.Namespace, "namespace", "", "namespace of the installation: that of its agents and of the Lease")
	f.BoolVar(&options.Explain, "explain", options.Explain, "tell pods why their claims cannot be allocated")
	f.BoolVar(&options.Hosts, "hosts", options.Hosts, "make conditions of nodes of HostReports, and keep the Installation; the kinds must be defined")
	f.BoolVar(&options.NodeLabels, "node-labels", options.NodeLabels, "with --hosts: set the labels of Node Feature Discovery on nodes that it does not look after")
	f.StringVar(&options.FeatureGates, "feature-gates", "", "feature gates of the scheduler that differ from the defaults of the cluster's version, such as DRAListTypeAttributes=true")
	f.StringVar(&options.Socket, "socket", options.Socket, "where the program answers its own commands, healthz and metrics")
	f.StringVar(&options.MetricsAddress, "metrics-address", "", "ADDRESS:PORT to serve metrics on, by HTTPS, to who may GET /metrics of the cluster; empty: the socket alone")
	f.StringVar(&options.MetricsCertDir, "metrics-cert-dir", "", "directory with tls.crt and tls.key for --metrics-address; empty: the program signs for itself")
	all := flag.NewFlagSet("log", flag.ContinueOnError)
	klog.InitFlags(all)
	f.AddGoFlag(all.Lookup("v"))
	root.AddCommand(
		newRefuseHeldCommand(), newCleanupCommand(),
		newAskCommand("healthz", "Ask the running program whether it is ready; say what it waits for if not", unixhttp.ProbeAtMost, operator.HealthPath),
		newAskCommand("metrics", "Print the running program's metrics", unixhttp.AskAtMost, operator.MetricsPath),
	)
	return root
}

func newAskCommand(name, short string, atMost time.Duration, path string) *cobra.Command {
	socket := operator.DefaultOptions().Socket
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := unixhttp.Ask(cmd.Context(), socket, path, atMost)
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), answer)
			return err
		},
	}
	cmd.Flags().StringVar(&socket, "socket", socket, "the program's --socket")
	return cmd
}
