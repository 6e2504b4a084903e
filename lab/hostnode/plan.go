// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostnode

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"plumbline.dev/plumbline/lab/vm/guest"
)

// Addresses inside the node's network namespace, the same as a guest has: what
// a node is configured with needs no second form.
const (
	hostAddress = "10.0.2.2"
	nodeAddress = "10.0.2.15"
	management  = "mgmt0"
	// farEnd begins the name of a link's other end.
	farEnd = "far"
)

// Plan is the configuration of the node's own processes.
type Plan struct {
	// Name is the host name in the node, Group that of its control groups.
	Name, Group string
	// StandIns are the NICs' names.
	StandIns []string
	// APIPort is the API server's on the host's loopback, and reached in the
	// node under the same number; KubeletPort is the kubelet's, reached on the
	// host's loopback.
	APIPort, KubeletPort int
	// Services run in the node, in this order.
	Services []guest.Service
}

// Command is what plumblab calls itself with for a node's processes.
const Command = "host-node"

// Files of the node's folder on the host.
const (
	planFile = "plan.json"
	rootDir  = "root"
	logsDir  = "logs"
	// insideFile holds the process id, on the host, of the node's first process.
	insideFile = "inside.pid"
	// groupsFile holds the folders of the node's control groups, a line each.
	groupsFile = "groups"
	outerFile  = "host-node.pid"
	outerLog   = "host-node.log"
	// startedFile appears when every service has been started.
	startedFile = "started"
)

func readPlan(dir string) (Plan, error) {
	var p Plan
	text, err := os.ReadFile(filepath.Join(dir, planFile))
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("read %s: %w", planFile, err)
	}
	return p, nil
}

func (p Plan) write(dir string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, planFile), text, 0o644)
}
