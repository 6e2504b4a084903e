// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/nccltopo"
)

// readTopologyFile says which GPU each NIC belongs to, by NCCL's file. Without it, and
// with one that cannot be read, NICs are published as the kernel shows them; the second
// is told on the node.
func (a *agent) readTopologyFile(ctx context.Context) map[model.PCIAddress]model.PCIAddress {
	if a.NCCLTopologyFile == "" {
		return nil
	}
	log := klog.FromContext(ctx)
	pairs, err := pairsOf(a.NCCLTopologyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		log.Info("the node has no topology file", "file", a.NCCLTopologyFile)
	case err != nil:
		log.Error(err, "the topology file is not used: NICs are published without their GPUs")
		a.events.Node(true, "TopologyFileUnread", err.Error()+"; NICs are published without their GPUs")
	default:
		log.Info("read the topology file", "file", a.NCCLTopologyFile, "NICs with a GPU of their own", len(pairs))
	}
	return pairs
}

func pairsOf(file string) (map[model.PCIAddress]model.PCIAddress, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("read topology file: %w", err)
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		return nil, fmt.Errorf("read topology file %s: want a regular file, it is %s", file, info.Mode())
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read topology file: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, nccltopo.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read topology file: %w", err)
	}
	topology, err := nccltopo.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("read topology file %s: %w", file, err)
	}
	return nccltopo.OneToOne(topology.Pairs()), nil
}
