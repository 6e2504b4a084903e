// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Command hyperkube is the lab's control plane, node agent and client in one
// binary, chosen by the first argument. One link step instead of seven saves
// most of a cold build, and the parts share their code on disk and in the
// guest's memory. It is a module of its own, so that nothing the lab or
// plumbline requires can change what Kubernetes is built from.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// components maps the first argument to the command it runs.
var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet": func() *cobra.Command {
		// It hears signals by itself, from when it runs.
		return kubelet.NewKubeletCommand(context.Background())
	},
}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	name := os.Args[1]
	newCommand, served := components[name]
	switch {
	case name == "etcd":
		etcdmain.Main(os.Args[1:])
	case name == "kubectl":
		os.Args = os.Args[1:]
		// kubectl exits by itself, with the wording and codes its users know.
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	case served:
		os.Args = os.Args[1:]
		os.Exit(cli.Run(newCommand()))
	default:
		usage()
	}
}

func usage() {
	names := []string{"etcd", "kubectl"}
	for name := range components {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(os.Stderr, "usage: hyperkube %s [flags]\n", strings.Join(names, "|"))
	os.Exit(2)
}
