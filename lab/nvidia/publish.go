// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

// Package nvidia has NVIDIA's DRA driver for GPUs publish what it makes of a machine file,
// for a node that does not exist: its own kubelet plugin as a process of this host, over
// the stand-in of NVIDIA's library and the machine's rendered /sys. It needs no root, and
// of all the files that the plugin looks at none is the host's.
package nvidia

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/node"
	"plumbline.dev/plumbline/lab/nvml"
	"plumbline.dev/plumbline/lab/vm/initramfs"
)

// Driver is NVIDIA's DRA driver for GPUs and what it runs over.
type Driver struct {
	// Plugin is the program gpu-kubelet-plugin.
	Plugin string
	// StandIn is what stands in for the rest of NVIDIA's software.
	StandIn node.NVIDIAStandIn
}

// Node is whose GPUs are published. The API server knows it.
type Node struct {
	Name string
	// Table is what NVIDIA's library says of the GPUs (nvml.Table), Sys the machine's /sys.
	Table []byte
	Sys   *machine.Tree
	// MIG is what an administrator made of the GPUs before, as the library keeps it
	// (nvml.MIGPath); empty for nothing.
	MIG []byte
	// Kubeconfig is a file with which the plugin reaches the API server.
	Kubeconfig string
	// Args are further arguments of the plugin, such as feature gates.
	Args []string
	// Log takes what the plugin says.
	Log io.Writer
}

const (
	// publishAtMost is how long the plugin may take. On two busy cores it needs a tenth.
	publishAtMost = time.Minute
	// endAtMost is how long it may take to end when asked.
	endAtMost = 10 * time.Second
)

// Publish runs the plugin until all of the node's slices are there. Then it ends, and the
// slices stay: only a kubelet would remove them. Slices of an earlier time go first, since
// nobody could tell when the plugin is done with those that it finds as they should be.
func (d Driver) Publish(ctx context.Context, client kubernetes.Interface, n Node) ([]resourceapi.ResourceSlice, error) {
	all := metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + slicecodec.DriverGPU +
		"," + resourceapi.ResourceSliceSelectorNodeName + "=" + n.Name}
	of := client.ResourceV1().ResourceSlices()
	if err := of.DeleteCollection(ctx, metav1.DeleteOptions{}, all); err != nil {
		return nil, fmt.Errorf("remove the slices of %s on node %s: %w", slicecodec.DriverGPU, n.Name, err)
	}
	var published []resourceapi.ResourceSlice
	complete := func(ctx context.Context) (bool, error) {
		list, err := of.List(ctx, all)
		if err != nil {
			return false, err
		}
		published = list.Items
		return len(published) > 0 && len(published) == int(published[0].Spec.Pool.ResourceSliceCount), nil
	}
	err := d.While(ctx, n, func(ctx context.Context) error {
		return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, publishAtMost, true, complete)
	})
	if err != nil {
		return nil, fmt.Errorf("have NVIDIA's driver publish the GPUs of node %s: %d slices: %w", n.Name, len(published), err)
	}
	return published, nil
}

// errEnded is why the plugin's end cancels what is done while it runs.
var errEnded = errors.New("gpu-kubelet-plugin ended by itself")

// While runs the plugin while something is done, and ends it.
func (d Driver) While(ctx context.Context, n Node, do func(context.Context) error) (err error) {
	// Its sockets' paths must be short, so the folder is none of a cluster's.
	dir, err := os.MkdirTemp("", "gpu-kubelet-plugin-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	running, cancel := context.WithCancelCause(ctx)
	plugin, err := d.command(running, dir, n)
	if err != nil {
		cancel(nil)
		return err
	}
	if err := plugin.Start(); err != nil {
		cancel(nil)
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = plugin.Wait() // it was asked to end, or its log says why it did
		cancel(errEnded)
		close(ended)
	}()
	err = do(running)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(running), errEnded) {
		err = errEnded
	}
	cancel(nil)
	<-ended
	return err
}

// command is the plugin, with everything that it reads and writes below dir.
func (d Driver) command(ctx context.Context, dir string, n Node) (*exec.Cmd, error) {
	root, sys, registry := filepath.Join(dir, "driver"), filepath.Join(dir, "machine"), filepath.Join(dir, "registry")
	// With a folder dev below the driver's root, the plugin looks into no other.
	for _, folder := range []string{filepath.Join(root, "dev"), registry} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	files := d.StandIn.DriverRoot(n.Table)
	if len(n.MIG) > 0 {
		files["/"+nvml.MIGPath] = initramfs.File{Content: n.MIG}
	}
	if err := writeFiles(root, files); err != nil {
		return nil, err
	}
	if err := n.Sys.WriteTo(sys); err != nil {
		return nil, err
	}
	plugin := exec.CommandContext(ctx, d.Plugin, append([]string{
		"--node-name=" + n.Name, "--image-name=none",
		"--nvidia-driver-root=" + root, "--container-driver-root=" + root,
		"--cdi-root=" + filepath.Join(dir, "cdi"), "--nvidia-cdi-hook-path=" + filepath.Join(dir, "nvidia-cdi-hook"),
		"--kubelet-plugins-directory-path=" + filepath.Join(dir, "plugins"),
		"--kubelet-registrar-directory-path=" + registry,
		"--kubeconfig=" + n.Kubeconfig,
	}, n.Args...)...)
	plugin.Dir, plugin.Stdout, plugin.Stderr = dir, n.Log, n.Log
	plugin.Env = []string{"HOME=" + dir, "PATH=/nonexistent", "NVIDIA_DRA_SYSFS_ROOT=" + filepath.Join(sys, "sys")}
	plugin.Cancel = func() error { return plugin.Process.Signal(syscall.SIGTERM) }
	plugin.WaitDelay = endAtMost
	return plugin, nil
}

// writeFiles writes a node's files below a folder of this host.
func writeFiles(root string, files initramfs.Files) error {
	for name, file := range files {
		content := file.Content
		if file.Source != "" {
			var err error
			if content, err = os.ReadFile(file.Source); err != nil {
				return err
			}
		}
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, content, cmp.Or(file.Mode, 0o644)); err != nil {
			return err
		}
	}
	return nil
}
