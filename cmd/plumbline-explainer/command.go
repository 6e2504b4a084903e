// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/explainer"
	"plumbline.dev/plumbline/internal/unixhttp"
)

func newCommand() *cobra.Command {
	options := explainer.DefaultOptions()
	root := &cobra.Command{
		Use:   "plumbline-explainer",
		Short: "Tell pods why their ResourceClaims cannot be allocated",
		Long: `Watch the pods of a cluster that are not scheduled. Where the ResourceClaims of one
cannot be allocated on any node, make an event of the pod that says why, and what
would help: what "plumbline explain" says, in a few sentences.

Nothing else is written. Run one in a cluster; with two, every event is sent twice.`,
		Example: `  # against another cluster than one's own
  plumbline-explainer --kubeconfig ~/.kube/config --socket /tmp/explainer.sock

  # where the scheduler compares lists
  plumbline-explainer --feature-gates DRAListTypeAttributes=true

  # the events that it sent
  kubectl get events -A --field-selector reason=` + explainer.Reason,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return explainer.Run(cmd.Context(), options) },
	}
	f := root.Flags()
	f.StringVar(&options.Kubeconfig, "kubeconfig", "", "empty: the pod's service account")
	f.StringVar(&options.FeatureGates, "feature-gates", "", "feature gates of the scheduler that differ from the defaults of the cluster's version, such as DRAListTypeAttributes=true")
	f.StringVar(&options.Socket, "socket", options.Socket, "where the program answers its own commands, healthz and metrics")
	f.StringVar(&options.MetricsAddress, "metrics-address", "", "ADDRESS:PORT to serve metrics on, by HTTPS, to who may GET /metrics of the cluster; empty: the socket alone")
	f.StringVar(&options.MetricsCertDir, "metrics-cert-dir", "", "directory with tls.crt and tls.key for --metrics-address; empty: the program signs for itself")
	all := flag.NewFlagSet("log", flag.ContinueOnError)
	klog.InitFlags(all)
	f.AddGoFlag(all.Lookup("v"))
	root.AddCommand(
		newAskCommand("healthz", "Ask the running program whether it is ready; say what it waits for if not", explainer.HealthPath),
		newAskCommand("metrics", "Print the running program's metrics", explainer.MetricsPath),
	)
	return root
}

func newAskCommand(name, short, path string) *cobra.Command {
	socket := explainer.DefaultOptions().Socket
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := unixhttp.Ask(cmd.Context(), socket, path)
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
