// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/lab/cluster"
	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/scenario/mission"
	"plumbline.dev/plumbline/lab/scenario/mpi"
)

// missionMachine is one of examples/mission.yaml: what is started, and the image that takes the
// place of the documents'.
type missionMachine struct {
	options cluster.Options
	// file is a machine file of the checkout, where none that is shipped would do.
	file  string
	image string
}

// missionMachines are by their names in the table. The article's pods measure RDMA, those with
// TPUs TCP.
var missionMachines = map[string]missionMachine{
	"a3": {options: cluster.Options{
		Machine: "a3-ultragpu-8g", Simulate: []cluster.Simulated{azure}, GPUs: cluster.GPUsOfNVIDIA,
	}, image: image.Busybox},
	"tpu":       {options: tpuNode, file: "lab/machines/two-ct6e-standard-4t.yaml", image: image.Iperf3},
	"egx":       {options: egxNode, image: image.Perftest},
	missionHost: {options: cluster.Options{OnHost: true, DNS: true}, image: image.Busybox},
}

// missionHost is the machine that is this host.
const missionHost = "host"

// newMission types the documents' commands.
func newMission(g *global) *cobra.Command {
	config := mission.Config{}
	cmd := &cobra.Command{
		Use:   "mission",
		Short: "Type the commands of the mission's documents, on one machine after the other",
		Long: `mission boots the machines that examples/mission.yaml names, one after the other, and types
the commands that the documents print in a shell with kubectl, helm and plumbline. What comes
out must be what the documents print, but for declared deviations, and these must differ.
Machines that a run left which was killed are removed first, and each goes when its rows are
done. The node on this host needs root: leave it out by --only.`,
		Example: "  plumblab mission\n  plumblab mission --only a3,tpu",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checkout, err := g.checkout()
			if err != nil {
				return err
			}
			config.Examples, config.Out = filepath.Join(checkout, "examples"), cmd.OutOrStdout()
			text, err := os.ReadFile(filepath.Join(config.Examples, "mission.yaml"))
			if err != nil {
				return err
			}
			if config.Table, err = mission.Read(text); err != nil {
				return err
			}
			config.Start = map[string]func(context.Context) (*mission.Lab, error){}
			for name := range missionMachines {
				config.Start[name] = func(ctx context.Context) (*mission.Lab, error) { return g.missionLab(ctx, cmd, name, checkout) }
			}
			if err := config.Check(); err != nil {
				return err
			}
			// Not after an hour of other machines.
			if config.Has(missionHost) {
				if err := checkHost(cmd); err != nil {
					return fmt.Errorf("machine %s: %w (--only leaves it out)", missionHost, err)
				}
			}
			return mission.Run(cmd.Context(), config)
		},
	}
	cmd.Flags().StringSliceVar(&config.Only, "only", nil, "run only the rows of these `MACHINES` of the table")
	return cmd
}

// missionLab brings a machine up that no earlier run has used, on a cluster of its own.
func (g *global) missionLab(ctx context.Context, cmd *cobra.Command, name, checkout string) (*mission.Lab, error) {
	beside, down := g.beside(name)
	if err := down(ctx); err != nil {
		return nil, err
	}
	machine := missionMachines[name]
	lab := &mission.Lab{Stop: down, LabImage: image.Busybox, Image: machine.image}
	options := machine.options
	if machine.file != "" {
		options.Machine = filepath.Join(checkout, machine.file)
	}
	if options.OnHost {
		if err := place(cmd, onHost, &options); err != nil {
			return nil, err
		}
	}
	s, err := beside.start(cmd, options)
	if err != nil {
		return lab, err
	}
	if options.OnHost {
		jobs, err := g.mpiConfig(cmd, s)
		if err != nil {
			return lab, err
		}
		if err := mpi.Prepare(ctx, jobs); err != nil {
			return lab, err
		}
	}
	if machine.image == image.Iperf3 {
		archive, err := s.builder.Iperf3(ctx)
		if err != nil {
			return lab, err
		}
		if err := s.cluster.AddImages(ctx, archive); err != nil {
			return lab, err
		}
	}
	program, err := s.builder.Program("plumbline")
	if err != nil {
		return lab, err
	}
	helm, environment, err := s.cluster.HelmCommand()
	if err != nil {
		return lab, err
	}
	lab.Folder, lab.Shell, lab.Environment = s.cluster.TempFolder("mission"), s.cluster.NodeShell, environment
	lab.Programs = map[string][]string{"kubectl": s.kubectl.Command, "helm": helm, "plumbline": {program}}
	return lab, nil
}
