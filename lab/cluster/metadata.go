// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/lab/controlplane"
	"plumbline.dev/plumbline/lab/metadata"
)

// metadata starts the node's metadata server, where its machine is in the cloud
// that has this kind, and returns its port.
func (c *Cluster) metadata(ctx context.Context, facts *machine.Facts, o Options) (int, error) {
	if facts.Provider != metadata.Provider {
		return 0, nil
	}
	program, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("start the metadata server: %w", err)
	}
	name := o.Machine
	if o.agentMachine() != name { // a file's path, which the server opens elsewhere
		if name, err = filepath.Abs(name); err != nil {
			return 0, err
		}
	}
	return metadata.Up(ctx, metadata.Config{Program: program, Machine: name, Dir: c.dir})
}

// cloudArgs tell the agent about its cloud. It never looks for one by itself:
// from a guest it would find that of the machine the lab runs on.
func (o Options) cloudArgs() []any {
	if o.metadataPort == 0 {
		return []any{"--cloud-provider=none"}
	}
	endpoint := net.JoinHostPort(controlplane.HostInGuest, strconv.Itoa(o.metadataPort))
	return []any{"--cloud-provider=gce", "--metadata-endpoint=" + endpoint}
}
