// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/cpuset"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/inventory"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

func newMachineSlicesCommand() *cobra.Command {
	var node string
	var simulated bool
	cmd := &cobra.Command{
		Use:   "slices FILE|NAME",
		Short: "Print the ResourceSlices a node with that hardware would publish",
		Long: `Print as YAML the ResourceSlices that the agent would publish on a node with that
hardware, for all its drivers. A recording does not say which products its GPUs
are, so it has no slice of gpu.nvidia.com.`,
		Example: `  {{program}} machine slices a3-ultragpu-8g | less`,
		Args:    oneMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := machine.Open(args[0])
			if err != nil {
				return err
			}
			if node == "" {
				node = defaultNodeName(file.Name)
			}
			if wrong := validation.IsDNS1123Subdomain(node); len(wrong) > 0 {
				return cmdutil.Usagef("--node-name %q: %s", node, strings.Join(wrong, "; "))
			}
			return printSlices(cmd.Context(), file, node, simulated, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&simulated, "simulated", false, "mark every GPU and NIC as simulated, for a node that does not exist")
	cmd.Flags().StringVar(&node, "node-name", "", "node that would publish them (default: the machine's name)")
	return cmd
}

func defaultNodeName(machineName string) string {
	if machineName == "" {
		return "node"
	}
	return strings.ToLower(machineName)
}

func printSlices(ctx context.Context, file *machine.File, node string, simulated bool, out, errOut io.Writer) error {
	options := inventory.Options{Name: file.Name, Architecture: file.Arch}
	if simulated {
		options.Simulated = "simulated node"
	}
	var source inventory.GPUs
	drivers := []string{slicecodec.DriverNet, slicecodec.DriverCPU}
	if file.Facts != nil {
		if gpus := file.Facts.ModelGPUs(); len(gpus) > 0 {
			source = inventory.Listed(gpus)
			if simulated {
				source = inventory.Simulated{Facts: gpus, StandIn: options.Simulated, Node: node}
			}
			drivers = append(drivers, slicecodec.DriverGPU)
		}
	}
	s, err := scan(ctx, file.Tree, source, file.Source, options)
	if err != nil {
		return err
	}
	for _, p := range s.problems {
		fmt.Fprintln(errOut, p)
	}
	for _, driver := range drivers {
		for _, slice := range nodeSlices(s.machine, driver, node) {
			text, err := yaml.Marshal(slice)
			if err != nil {
				return fmt.Errorf("write slice %s: %w", slice.Name, err)
			}
			if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
				return err
			}
		}
	}
	return nil
}

// nodeSlices are the slices of one driver's pool, the first of their generation.
func nodeSlices(m *model.Machine, driver, node string) []resourceapi.ResourceSlice {
	parts := slicecodec.Split(slicecodec.Encode(m, driver, cpuset.New()))
	published := make([]resourceapi.ResourceSlice, len(parts))
	for i, devices := range parts {
		published[i] = resourceapi.ResourceSlice{
			TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceSlice"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d", node, driver, i)},
			Spec: resourceapi.ResourceSliceSpec{
				Driver:   driver,
				NodeName: &node,
				Pool:     resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: int64(len(parts))},
				Devices:  devices,
			},
		}
	}
	return published
}
