// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"plumbline.dev/plumbline/internal/deviceplugin"
	"plumbline.dev/plumbline/internal/model"
)

const (
	// socket is the kubelet's, below its root
	// (pkg/kubelet/apis/podresources/constants.go, pkg/kubelet/kubelet.go).
	socket = "pod-resources/kubelet.sock"
	// answerAtMost bounds both questions together; whoever asks the agent waits little
	// longer.
	answerAtMost = 2 * time.Second
	// largest is the kubelet's own bound of an answer
	// (pkg/kubelet/apis/podresources/constants.go).
	largest = 16 << 20
)

var errNotScanned = errors.New("the machine was not scanned yet")

// Kubelet is the kubelet of this node.
type Kubelet struct {
	// Node is its name.
	Node string
	// Root is the kubelet's directory.
	Root string
	// Proc is the host's /proc, where NVIDIA's driver lists its GPUs.
	Proc fs.FS
	// Machine is the newest scan; nil before the first.
	Machine func() *model.Machine
}

// Look asks what device plugins offer now and who has it.
func (k Kubelet) Look(ctx context.Context) (*deviceplugin.Report, error) {
	m := k.Machine()
	if m == nil {
		return nil, errNotScanned
	}
	offered, held, err := k.ask(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet what its device plugins gave: %w", err)
	}
	r := &deviceplugin.Report{APIVersion: deviceplugin.APIVersion, Kind: deviceplugin.Kind, Node: k.Node, Devices: []deviceplugin.Device{}}
	by := locator{m: m, uuids: gpusByUUID(k.Proc)}
	type deviceID struct{ resource, id string }
	taken := map[deviceID]bool{}
	add := func(given *podresources.ContainerDevices, holder *deviceplugin.Holder) {
		for _, id := range given.GetDeviceIds() {
			key := deviceID{given.GetResourceName(), id}
			if holder == nil && taken[key] {
				continue
			}
			taken[key] = true
			d := deviceplugin.Device{Resource: key.resource, ID: id, Function: by.function(id), Held: holder}
			if _, gpu := deviceplugin.GPUVendor(d.Resource); gpu || d.Function != nil {
				r.Devices = append(r.Devices, d)
			}
		}
	}
	for _, pod := range held.GetPodResources() {
		for _, c := range pod.GetContainers() {
			holder := &deviceplugin.Holder{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Container: c.GetName()}
			for _, given := range c.GetDevices() {
				add(given, holder)
			}
		}
	}
	for _, given := range offered.GetDevices() {
		add(given, nil)
	}
	return r, nil
}

// ask puts both questions to the kubelet.
func (k Kubelet) ask(ctx context.Context) (*podresources.AllocatableResourcesResponse, *podresources.ListPodResourcesResponse, error) {
	path := filepath.Join(k.Root, socket)
	// gRPC hides why it could not connect.
	if err := dial(path); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largest)))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, answerAtMost)
	defer cancel()
	client := podresources.NewPodResourcesListerClient(conn)
	held, err := client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, nil, err
	}
	offered, err := client.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	return offered, held, err
}

func dial(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Connect(fd, &unix.SockaddrUnix{Name: path}), unix.Close(fd))
}
