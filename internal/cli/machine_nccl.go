// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/nccltopo"
)

func newReadNCCLTopoCommand() *cobra.Command {
	format := "text"
	cmd := &cobra.Command{
		Use:   "read-nccl-topo FILE",
		Short: "Print the GPU-NIC pairs of a topology file of NCCL",
		Long: `Print which GPUs and NICs are nearest to each other by a topology file of NCCL
(NCCL_TOPO_FILE, or what NCCL_TOPO_DUMP_FILE wrote): below one switch, or else on
one NUMA node. With -o json or yaml, also the attribute that each NIC's device has
where the agent reads the file: drivers.net.ncclTopologyFile of the chart.

A FILE of - is standard input.`,
		Example: `  # which NIC is next to which GPU on Azure's ND H100 v5?
  {{program}} machine read-nccl-topo /opt/microsoft/ndv5/topo.xml

  # the attributes that NICs would have
  {{program}} machine read-nccl-topo topo.xml -o yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cmdutil.Usagef("want one topology file, got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmdutil.CheckFormat(format); err != nil {
				return err
			}
			topology, err := readTopology(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			view := viewOf(topology)
			if format != "text" {
				return cmdutil.Encode(cmd.OutOrStdout(), format, view)
			}
			return view.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", format, "output format: text, json or yaml")
	return cmd
}

func readTopology(stdin io.Reader, file string) (*nccltopo.Topology, error) {
	from := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read topology file: %w", err)
		}
		defer func() { _ = f.Close() }() // only read
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, nccltopo.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read topology file %s: %w", file, err)
	}
	topology, err := nccltopo.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("read topology file %s: %w", file, err)
	}
	return topology, nil
}

// topologyView is a topology file as it is printed.
type topologyView struct {
	NUMANodes []nodeView      `json:"numaNodes"`
	Pairs     []nccltopo.Pair `json:"pairs"`
	// Attributes are those of the NICs' devices, by address.
	Attributes map[string]map[string]string `json:"attributes"`
}

type nodeView struct {
	// ID is nil for what is on no known node.
	ID   *int               `json:"id,omitempty"`
	CPUs string             `json:"cpus,omitempty"`
	GPUs []model.PCIAddress `json:"gpus,omitempty"`
	NICs []model.PCIAddress `json:"nics,omitempty"`
}

func viewOf(t *nccltopo.Topology) topologyView {
	view := topologyView{NUMANodes: []nodeView{}, Pairs: t.Pairs(), Attributes: map[string]map[string]string{}}
	for i := range t.CPUs {
		c := &t.CPUs[i]
		node := nodeView{ID: c.NUMANode}
		if c.CPUs != nil {
			node.CPUs = c.CPUs.String()
		}
		node.add(c.Functions)
		view.NUMANodes = append(view.NUMANodes, node)
	}
	if view.Pairs == nil {
		view.Pairs = []nccltopo.Pair{}
	}
	for nic, gpu := range nccltopo.OneToOne(view.Pairs) {
		view.Attributes[nic.String()] = map[string]string{slicecodec.AttrPairedGPU: gpu.String()}
	}
	return view
}

func (n *nodeView) add(functions []nccltopo.Function) {
	for i := range functions {
		f := &functions[i]
		switch {
		case f.IsGPU():
			n.GPUs = append(n.GPUs, f.Address)
		case f.IsNIC():
			n.NICs = append(n.NICs, f.Address)
		}
		n.add(f.Functions)
	}
}

func (v topologyView) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NUMA NODE\tCPUS\tGPUS\tNICS")
	for _, n := range v.NUMANodes {
		cpus := n.CPUs
		if cpus == "" {
			cpus = "unknown"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\n", nodeText(n.ID), cpus, len(n.GPUs), len(n.NICs))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	fmt.Fprintln(table, "GPU\tNIC\tNUMA NODE\tBELOW")
	for _, p := range v.Pairs {
		below := "the NUMA node alone"
		if p.Switch != nil {
			below = "switch " + p.Switch.String()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", p.GPU, p.NIC, nodeText(p.NUMANode), below)
	}
	return table.Flush()
}

func nodeText(id *int) string {
	if id == nil {
		return "unknown"
	}
	return fmt.Sprint(*id)
}
