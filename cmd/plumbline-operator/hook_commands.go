// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/operator"
	"plumbline.dev/plumbline/internal/operator/uninstall"
)

// newRefuseHeldCommand is the hook before an uninstallation.
func newRefuseHeldCommand() *cobra.Command {
	var kubeconfig string
	drivers := []string{"dra.net", "dra.cpu"}
	cmd := &cobra.Command{
		Use:   "refuse-held",
		Short: "Fail while pods hold devices, and say which",
		Long: `refuse-held fails while pods hold devices of the drivers, and prints claims, pods and
devices. It changes nothing. Without an agent nobody undoes the claims of pods that end.`,
		Example: `  # what an uninstallation by Helm does first
  plumbline-operator refuse-held --drivers=dra.net,dra.cpu --kubeconfig ~/.kube/config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return operator.RefuseHeld(cmd.Context(), kubeconfig, drivers, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "empty: the pod's service account")
	cmd.Flags().StringSliceVar(&drivers, "drivers", drivers, "names of the drivers that are served")
	return cmd
}

// newCleanupCommand is the hook after an uninstallation.
func newCleanupCommand() *cobra.Command {
	var kubeconfig string
	left := uninstall.Leftovers{Namespace: "plumbline-system", Patience: 3 * time.Minute}
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Take the conditions and labels of plumbline off all nodes, after its operator has gone",
		Long: `cleanup takes the conditions and labels of plumbline off all nodes, deletes the Lease of
the operator, and, with --daemonset, waits until the pods of that DaemonSet are Ready:
they remove from each host what agents kept there.`,
		Example: `  # what an uninstallation by Helm does at its end
  plumbline-operator cleanup --daemonset plumbline-leave --kubeconfig ~/.kube/config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return operator.Cleanup(cmd.Context(), kubeconfig, left, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "empty: the pod's service account")
	f.StringVar(&left.Namespace, "namespace", left.Namespace, "namespace of the installation")
	f.StringVar(&left.DaemonSet, "daemonset", "", "the DaemonSet that cleans hosts; empty: wait for none")
	f.DurationVar(&left.Patience, "patience", left.Patience, "how long hosts may take")
	return cmd
}
