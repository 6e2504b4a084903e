// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

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

// ErrRival says that somebody else serves the driver on this node.
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

// mark leaves a locked file that tells agents of this system that a
// registration socket is one of theirs. The lock ends with the process, so a
// file that is left behind vouches for nobody.
func (n Node) mark(driver string) (unmark func(), err error) {
	if err := os.MkdirAll(n.AgentsDir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(n.AgentsDir, n.socketName(driver))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// marked says whether a living agent of this system has the socket.
func (n Node) marked(socket string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(n.AgentsDir, socket), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	// Nobody has it: what is left of an agent that has ended.
	return false, os.Remove(f.Name())
}

// refuseRivals returns ErrRival when a server that is none of ours answers for
// the driver, and removes what dead ones have left behind: the kubelet would go
// on dialling it.
func (n Node) refuseRivals(ctx context.Context, driver string) error {
	entries, err := os.ReadDir(n.registry())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&os.ModeSocket == 0 || !strings.HasSuffix(e.Name(), ".sock") {
			continue
		}
		path := filepath.Join(n.registry(), e.Name())
		info, err := askInfo(ctx, path)
		if errors.Is(err, unix.ECONNREFUSED) && strings.HasPrefix(e.Name(), driver+"-") {
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			continue
		}
		if err != nil || info.GetType() != registerapi.DRAPlugin || info.GetName() != driver {
			continue // who does not answer serves nobody
		}
		ours, err := n.marked(e.Name())
		if err != nil {
			return err
		}
		if !ours {
			return fmt.Errorf("%w: %s answers for %s with the endpoint %s, and the kubelet would ask either: "+
				"remove the other driver, or have this agent serve others (--drivers)", ErrRival, path, driver, info.GetEndpoint())
		}
	}
	return nil
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
