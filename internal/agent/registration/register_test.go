// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"plumbline.dev/plumbline/internal/agent/agenttest"
	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/model"
)

// kubeletOf is a node with an empty kubelet's directory.
func kubeletOf(t *testing.T, slices ...runtime.Object) Node {
	t.Helper()
	// Not t.TempDir(): the path of a socket has room for 107 characters.
	dir, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	n := Node{Name: "node", Manager: "plumbline-agent", KubeletRoot: dir, AgentsDir: filepath.Join(dir, "agents"), Client: fake.NewClientset(slices...)}
	for _, d := range []string{n.registry(), n.data("dra.net")} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func register(t *testing.T, n Node, health *Health) (*Registration, error) {
	t.Helper()
	p := &claims.Preparer{Driver: claims.Of(&agenttest.FakeDriver{DriverName: "dra.net"})}
	return Register(t.Context(), p, n, health, func(error) {}) // a server that ends before it serves says so
}

func mustRegister(t *testing.T, n Node, health *Health) *Registration {
	t.Helper()
	r, err := register(t, n, health)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A kubelet that starts after an upgrade finds the new agent, also where both
// agents' sockets have the same names.
func TestTheOldAgentLeavesTheNewOnesSockets(t *testing.T) {
	for name, uids := range map[string][2]types.UID{"pods' names": {"old-uid", "new-uid"}, "one name": {}} {
		t.Run(name, func(t *testing.T) {
			n := kubeletOf(t)
			n.PodUID = uids[0]
			first := mustRegister(t, n, nil)
			n.PodUID = uids[1]
			second := mustRegister(t, n, nil)
			first.Stop()
			found, err := aliveIn(n.registry(), "dra.net-")
			if err != nil || len(found) != 1 {
				t.Fatalf("registration sockets %v, %v; want the new agent's", found, err)
			}
			info, err := askInfo(t.Context(), found[0])
			if err != nil {
				t.Fatalf("the new agent does not answer: %v", err)
			}
			if err := dial(info.GetEndpoint()); err != nil {
				t.Errorf("%s: %v", info.GetEndpoint(), err)
			}
			second.Stop()
			for _, dir := range []string{n.registry(), n.data("dra.net")} {
				if left, err := filepath.Glob(filepath.Join(dir, "*.sock")); err != nil || len(left) > 0 {
					t.Errorf("left behind: %v, %v", left, err)
				}
			}
		})
	}
}

// An agent that was killed leaves sockets, which the kubelet would go on dialling.
func TestSocketsOfTheDeadAreRemoved(t *testing.T) {
	n := kubeletOf(t)
	n.PodUID = "new-uid"
	dead := []string{filepath.Join(n.registry(), "dra.net-old-uid-reg.sock"), filepath.Join(n.data("dra.net"), "dra-old-uid.sock")}
	another, young := filepath.Join(n.registry(), "dra.cpu-reg.sock"), filepath.Join(n.registry(), "dra.net-young-reg.sock")
	for _, path := range append([]string{another, young}, dead...) {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if then := time.Now().Add(-time.Minute); path != young {
			if err := os.Chtimes(path, then, then); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer mustRegister(t, n, nil).Stop()
	for _, path := range dead {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, want it removed", path, err)
		}
	}
	for _, path := range []string{another, young} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%v; want it left", err)
		}
	}
}

// rival serves dra.net from another socket.
type rival struct {
	registerapi.UnimplementedRegistrationServer
}

func (rival) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.DRAPlugin, Name: "dra.net", Endpoint: "/elsewhere/dra.sock"}, nil
}

func TestAnotherServerIsRefused(t *testing.T) {
	n := kubeletOf(t)
	l, err := net.Listen("unix", filepath.Join(n.registry(), "dra.net-reg.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registerapi.RegisterRegistrationServer(server, rival{})
	go func() { _ = server.Serve(l) }()
	n.PodUID = "uid"
	_, err = register(t, n, nil)
	if !errors.Is(err, ErrRival) || !strings.Contains(err.Error(), "/elsewhere/dra.sock") || !strings.Contains(err.Error(), "remove the other driver") {
		t.Errorf("got %v, want a refusal that names the other's endpoint and the way out", err)
	}
	server.Stop()
	r, err := register(t, n, nil)
	if err != nil {
		t.Fatalf("the other one has left, and still: %v", err)
	}
	r.Stop()
}

// Devices of the driver that another server publishes are given away twice.
func TestForeignSlicesAreRefused(t *testing.T) {
	sliceBy := func(managers ...string) *resourceapi.ResourceSlice {
		node := "node"
		s := &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "node-dra.net-x"},
			Spec:       resourceapi.ResourceSliceSpec{Driver: "dra.net", NodeName: &node, Pool: resourceapi.ResourcePool{Name: "node"}},
		}
		for _, m := range managers {
			s.ManagedFields = append(s.ManagedFields, metav1.ManagedFieldsEntry{Manager: m})
		}
		return s
	}
	for name, test := range map[string]struct {
		managers []string
		refused  bool
	}{
		"of an agent before this one":              {[]string{"plumbline-agent"}, false},
		"of ours that a person has edited":         {[]string{"kubectl-edit", "plumbline-agent"}, false},
		"of another server":                        {[]string{"dranet"}, true},
		"of nobody knows whom, as old servers say": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := kubeletOf(t)
			n.PodUID = "uid"
			n.Client = fake.NewClientset(sliceBy(test.managers...))
			r, err := register(t, n, nil)
			if errors.Is(err, ErrRival) != test.refused || test.refused && !strings.Contains(err.Error(), "node-dra.net-x") {
				t.Errorf("got %v, want refused %t", err, test.refused)
			}
			if err == nil {
				r.Stop()
			}
		})
	}
}

// What is known of a device's health arrives at the kubelet.
func TestTheKubeletIsToldOfFaults(t *testing.T) {
	n := kubeletOf(t)
	defer mustRegister(t, n, &Health{
		Devices: func() []string { return []string{"nic0"} },
		Faults: func() map[string][]model.Fault {
			return map[string][]model.Fault{"nic0": {{Kind: model.FaultCarrier, Message: "no carrier"}}}
		},
	}).Stop()
	conn, err := grpc.NewClient("unix://"+filepath.Join(n.data("dra.net"), "dra.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stream, err := drahealth.NewDRAResourceHealthClient(conn).NodeWatchResources(t.Context(), &drahealth.NodeWatchResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if d := got.GetDevices(); len(d) != 1 || d[0].GetDevice().GetDeviceName() != "nic0" || d[0].GetHealth() != drahealth.HealthStatus_UNHEALTHY || d[0].GetMessage() != "CarrierLost: no carrier" {
		t.Errorf("the kubelet heard %v", got)
	}
}

// An agent's mark goes with it; one that was killed leaves its to the next agent.
func TestMarksDoNotPileUp(t *testing.T) {
	n := kubeletOf(t)
	if err := os.MkdirAll(n.AgentsDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.AgentsDir, "dra.net-killed-reg.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unmark, err := n.mark("dra.net")
	if err != nil {
		t.Fatal(err)
	}
	other := n
	other.PodUID = "other"
	unmarkOther, err := other.mark("dra.net")
	if err != nil {
		t.Fatal(err)
	}
	marks := func() int {
		t.Helper()
		entries, err := os.ReadDir(n.AgentsDir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	if got := marks(); got != 2 {
		t.Errorf("two agents have %d marks", got)
	}
	unmark()
	unmarkOther()
	if got := marks(); got != 0 {
		t.Errorf("%d marks are left of agents that have ended", got)
	}
}

// A driver that left the kubelet because its label went comes back in the same
// agent, and its leaving is no fault that would end the agent.
func TestADriverLeavesAndComesBack(t *testing.T) {
	n := kubeletOf(t)
	n.PodUID = "uid"
	for range 2 {
		p := &claims.Preparer{Driver: claims.Of(&agenttest.FakeDriver{DriverName: "dra.net"})}
		r, err := Register(t.Context(), p, n, nil, func(err error) { t.Errorf("fatal: %v", err) })
		if err != nil {
			t.Fatal(err)
		}
		found, err := aliveIn(n.registry(), "dra.net-")
		if err != nil || len(found) != 1 {
			t.Fatalf("registration sockets %v, %v; want one", found, err)
		}
		if info, err := askInfo(t.Context(), found[0]); err != nil || dial(info.GetEndpoint()) != nil {
			t.Errorf("the driver does not answer: %v", err)
		}
		r.Stop()
		for _, dir := range []string{n.registry(), n.data("dra.net"), n.AgentsDir} {
			if left, err := filepath.Glob(filepath.Join(dir, "*.sock")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		}
	}
}
