// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/agent"
	"plumbline.dev/plumbline/internal/unixhttp"
)

// newHealthCommand is the exec probe: it asks the agent of the same container.
func newHealthCommand() *cobra.Command {
	return newAskCommand("healthz", "Ask the running agent whether it is ready; say what it waits for if not", unixhttp.ProbeAtMost, always(agent.HealthPath))
}

// newMetricsCommand is for people, and for where nothing scrapes.
func newMetricsCommand() *cobra.Command {
	return newAskCommand("metrics", "Print the running agent's metrics", unixhttp.AskAtMost, always(agent.MetricsPath))
}

// newVerifyCommand is what "plumbline verify" runs in the agent's pod.
func newVerifyCommand() *cobra.Command {
	var namespace, pod string
	cmd := newAskCommand("verify", "Print as JSON whether the node's pods are as they claim, by what the kernel says now", unixhttp.AskAtMost, func() string {
		return agent.VerifyPath + "?" + url.Values{"namespace": {namespace}, "pod": {pod}}.Encode()
	})
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "pods of this namespace alone")
	cmd.Flags().StringVar(&pod, "pod", "", "pods of this name alone")
	return cmd
}

// newDevicePluginsCommand is what "plumbline topo --node" runs in the agent's pod.
func newDevicePluginsCommand() *cobra.Command {
	return newAskCommand("device-plugins", "Print as JSON which PCI devices and GPUs device plugins offer, and the containers that have them", unixhttp.AskAtMost, always(agent.DevicePluginsPath))
}

func newAskCommand(name, short string, atMost time.Duration, path func() string) *cobra.Command {
	socket := agent.DefaultOptions().Socket
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := unixhttp.Ask(cmd.Context(), socket, path(), atMost)
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), answer)
			return err
		},
	}
	cmd.Flags().StringVar(&socket, "socket", socket, "the agent's --socket")
	return cmd
}

func always(path string) func() string { return func() string { return path } }
