// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
)

// ContainerdConfig are the values in which the lab's containerds differ.
type ContainerdConfig struct {
	// Root, State and Socket are where it keeps its data.
	Root, State, Socket string
	// NRISocket is where NRI plugins connect.
	NRISocket string
	// CDI are the folders of CDI spec files.
	CDI []string
	// CNIPrograms and CNIConfig are folders.
	CNIPrograms, CNIConfig string
	// Runc is the program, absolute.
	Runc string
	// Sandbox is the image of pods' sandboxes; it is never pulled.
	Sandbox string
	// OnHost says that the kernel is this host's, which may withhold what it
	// takes to lower a process's oom_score_adj (CAP_SYS_RESOURCE).
	OnHost bool
}

// Text writes config.toml. Values not named are containerd's own, and one that an older
// release does not know it leaves alone, with a warning.
func (c ContainerdConfig) Text() []byte {
	var cdi []string
	for _, dir := range c.CDI {
		cdi = append(cdi, fmt.Sprintf("%q", dir))
	}
	return fmt.Appendf(nil, `version = 3
root = %q
state = %q
# Nothing of the machine's own configuration.
imports = []
disabled_plugins = ["io.containerd.snapshotter.v1.erofs",
  "io.containerd.differ.v1.erofs", "io.containerd.mount-handler.v1.erofs", "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.internal.v1.tracing"]

[grpc]
  address = %q

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = %q

[plugins."io.containerd.cri.v1.runtime"]
  enable_cdi = true
  restrict_oom_score_adj = %t
  cdi_spec_dirs = [%s]
  # Each second all containers' shims would be woken, a tenth of a real CPU where the
  # node's are emulated and nothing else runs. The kubelet asks every 10 s.
  stats_collect_period = "10s"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = %q
  SystemdCgroup = false
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = [%q]
  conf_dir = %q

[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = %q
  # An emulated CPU is thirty times slower than a real one; with the usual 2 s a
  # busy guest would lose its plugins.
  plugin_request_timeout = "20s"
`, c.Root, c.State, c.Socket, c.Sandbox, c.OnHost, strings.Join(cdi, ", "),
		c.Runc, c.CNIPrograms, c.CNIConfig, c.NRISocket)
}

// CNIConflist gives each pod one end of a veth pair and an address of subnet.
// Pods of one node reach each other and their node; nothing leaves it, since
// a lab's traffic must not.
func CNIConflist(subnet string) []byte {
	return fmt.Appendf(nil, `{
  "cniVersion": "1.0.0",
  "name": "lab",
  "plugins": [
    {
      "type": "ptp",
      "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": %q}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    }
  ]
}
`, subnet)
}
