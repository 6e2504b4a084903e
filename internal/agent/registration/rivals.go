// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// answerAtMost is how long a registration socket may take to answer. The
// kubelet gives it ten seconds; one that is alive needs none.
const answerAtMost = 2 * time.Second

// bound is how old a socket is by when its server listens. Until then it looks
// like a dead one's.
const bound = 10 * time.Second

// ErrRival says that another server of the driver is on this node.
var ErrRival = errors.New("another server of the driver is on this node")

// socketName is the registration socket of this agent, as the library names it.
func (n Node) socketName(driver string) string {
	if n.PodUID == "" {
		return driver + "-reg.sock"
	}
	return kubeletplugin.RollingUpdateRegistrarSocketFile(n.registry(), driver, n.PodUID)
}

func (n Node) registry() string { return filepath.Join(n.KubeletRoot, "plugins_registry") }

func (n Node) data(driver string) string { return filepath.Join(n.KubeletRoot, "plugins", driver) }

// refuseRivals returns ErrRival when a server that is none of ours answers for
// the driver or offers its devices, and removes what dead ones have left behind:
// the kubelet would go on dialling it.
func (n Node) refuseRivals(ctx context.Context, driver string) error {
	registered, err := aliveIn(n.registry(), driver+"-")
	if err != nil {
		return err
	}
	if _, err := aliveIn(n.data(driver), "dra"); err != nil {
		return err
	}
	for _, path := range registered {
		info, err := askInfo(ctx, path)
		if err != nil || info.GetType() != registerapi.DRAPlugin || info.GetName() != driver {
			continue // a server that does not answer serves no claims
		}
		ours, err := n.marked(filepath.Base(path))
		if err != nil {
			return err
		}
		if !ours {
			return fmt.Errorf("%w: %s answers for %s with the endpoint %s, and the kubelet would ask either: "+
				"remove the other driver, or have this agent serve others (--drivers)", ErrRival, path, driver, info.GetEndpoint())
		}
	}
	return n.refuseSlices(ctx, driver)
}

// aliveIn lists the sockets of a directory that a server may listen on. Others are
// removed where they have the prefix.
func aliveIn(dir, prefix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var alive []string
	for _, e := range entries {
		if e.Type()&os.ModeSocket == 0 || !strings.HasSuffix(e.Name(), ".sock") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		switch {
		case err != nil: // it has just gone
		case !errors.Is(dial(path), unix.ECONNREFUSED):
			alive = append(alive, path)
		case strings.HasPrefix(e.Name(), prefix) && time.Since(info.ModTime()) > bound:
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
	}
	return alive, nil
}

// askInfo asks a registration socket whose it is, as the kubelet does.
func askInfo(ctx context.Context, path string) (*registerapi.PluginInfo, error) {
	// gRPC hides why it could not connect.
	if err := dial(path); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, answerAtMost)
	defer cancel()
	return registerapi.NewRegistrationClient(conn).GetInfo(ctx, &registerapi.InfoRequest{})
}

func dial(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Connect(fd, &unix.SockaddrUnix{Name: path}), unix.Close(fd))
}
