// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/scenario/install"
)

// newInstall follows the pages that tell how to install.
func newInstall(g *global) *cobra.Command {
	options := cluster.Options{NoInstall: true}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Start a node on this host, install plumbline as README says, and leave again",
		Long: `install types README's commands: it makes a release, pushes its image to a registry of
its own, and installs the chart by Helm. A pod gets a NIC, Debian's Prometheus scrapes agents
and operator, the host breaks and is mended, leaving is refused while the pod runs, and
afterwards node and API server must be as they were before. It writes no release into out,
and needs root.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := place(cmd, onHost, &options); err != nil {
				return err
			}
			config, err := g.installConfig(cmd, options)
			if err != nil {
				return err
			}
			fmt.Fprintf(config.Out, "\nREADME's installation on %s, and out again\n\n", config.Node)
			return install.Run(cmd.Context(), config)
		},
	}
	versionFlags(cmd, &options.Versions)
	return cmd
}

// installConfig starts the cluster, and writes down what the run is to know of it.
func (g *global) installConfig(cmd *cobra.Command, options cluster.Options) (config install.Config, err error) {
	if config.Checkout, err = g.checkout(); err != nil {
		return config, err
	}
	s, err := g.start(cmd, options)
	if err != nil {
		return config, err
	}
	c := s.cluster
	rest, err := clientcmd.BuildConfigFromFlags("", s.kubectl.Kubeconfig)
	if err != nil {
		return config, err
	}
	if config.Dynamic, err = dynamic.NewForConfig(rest); err != nil {
		return config, err
	}
	helm, env, err := c.HelmCommand()
	if err != nil {
		return config, err
	}
	plumbline, err := s.builder.Program("plumbline")
	if err != nil {
		return config, err
	}
	values, err := c.ChartValues(options)
	if err != nil {
		return config, err
	}
	folder := c.TempFolder("release")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return config, err
	}
	config.Values = filepath.Join(filepath.Dir(folder), "values.yaml")
	if err := os.WriteFile(config.Values, values, 0o600); err != nil {
		return config, err
	}
	config.Cluster, config.Kubectl = s.on(cluster.HostNodeName), s.kubectl
	config.Listen, config.Dial, config.Folder = c.ListenOnHost, c.DialOnHost, folder
	config.ImagesOf = c.ImagesOnHost
	prometheus, err := s.builder.Prometheus(cmd.Context())
	if err != nil {
		return config, err
	}
	config.StartPrometheus = func(ctx context.Context, files map[string][]byte) error {
		return c.StartPrometheus(ctx, prometheus, files)
	}
	config.StopPrometheus, config.PrometheusAddress = c.StopPrometheus, cluster.PrometheusAddress
	path := []string{filepath.Dir(helm[0]), filepath.Dir(plumbline), os.Getenv("PATH")}
	config.Environment = append(env, "PATH="+strings.Join(path, string(filepath.ListSeparator)))
	return config, nil
}
