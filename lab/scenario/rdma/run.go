// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// patience is how long anything may take: the node's processors are emulated.
const (
	patience = 4 * time.Minute
	poll     = time.Second
)

// namespace has the scenario's pods.
const namespace = "plumblab-rdma"

// The pods of pods.yaml, and the name of the claimed NIC in both.
const (
	server, client = "server", "client"
	ifname         = "net1"
)

// addresses are those of the claimed NICs, by pod.
var addresses = map[string]netip.Addr{
	server: netip.MustParseAddr("10.99.0.1"), client: netip.MustParseAddr("10.99.0.2"),
}

// loopbackAddress is that of the pods of alignment.yaml.
const loopbackAddress = "10.99.0.3"

// manifests are the claims and the pods.
//
//go:embed pods.yaml
var manifests string

// Config is what a run is to know.
type Config struct {
	harness.Cluster

	Kubectl   scenario.Kubectl
	Plumbline scenario.Plumbline
	// Exclusive says that RDMA devices belong to one network namespace each.
	Exclusive bool
}

type run struct {
	Config
	report harness.Report
	// devices are the RDMA devices that the pods claimed, by pod.
	devices map[string]string
}

// Run measures, prints what it finds, and leaves nothing of its own.
func Run(ctx context.Context, c Config) error {
	r := &run{Config: c, report: harness.Report{Scenario: "rdma", Out: c.Out}, devices: map[string]string{}}
	return r.report.Verdict(harness.Run(ctx, patience, r.cleanUp, r.steps))
}

func (r *run) cleanUp(ctx context.Context) error {
	return harness.DeleteNamespace(ctx, r.Client, namespace, patience)
}

func (r *run) steps(ctx context.Context) error {
	before, err := r.onHost(ctx)
	if err != nil {
		return err
	}
	if err := r.mode(ctx); err != nil {
		return err
	}
	if err := harness.CreateNamespace(ctx, r.Client, namespace); err != nil {
		return err
	}
	if _, err := r.Kubectl.RunWithInput(ctx, manifests, "apply", "-n", namespace, "-f", "-"); err != nil {
		return err
	}
	for _, pod := range []string{server, client} {
		if err := r.started(ctx, pod); err != nil {
			return err
		}
	}
	if err := r.killAgent(ctx); err != nil {
		return err
	}
	for _, m := range measurements {
		if err := r.measure(ctx, m); err != nil {
			return err
		}
	}
	if err := r.returned(ctx, before, server, client); err != nil {
		return err
	}
	if err := r.alignment(ctx, before); err != nil {
		return err
	}
	return r.bench(ctx, before)
}

// killAgent ends the agent under pods that are Ready, whose RDMA must not need it, and
// waits for the next one.
func (r *run) killAgent(ctx context.Context) error {
	const kill = harness.FindProcess + `pid=$(find_agent) || { echo "no agent runs" >&2; exit 1; }
kill -9 "$pid"
while [ -e "/proc/$pid" ]; do sleep 0.1; done
echo "$pid"`
	killed, err := r.Shell(ctx, kill)
	if err != nil {
		return fmt.Errorf("kill the agent: %w", err)
	}
	var next string
	err = harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		next, err = r.Shell(ctx, harness.FindProcess+`find_agent || true`)
		return next != "" && next != killed, err
	})
	if err != nil {
		return fmt.Errorf("wait for another agent after the killed one: %w", err)
	}
	r.report.Finding(true, "the agent was killed", "process %s, and %s runs", strings.TrimSpace(killed), strings.TrimSpace(next))
	return nil
}

// mode says by the kernel whether RDMA devices belong to one network namespace each.
func (r *run) mode(ctx context.Context) error {
	out, err := r.Shell(ctx, "cat /sys/module/ib_core/parameters/netns_mode")
	if err != nil {
		return err
	}
	exclusive := strings.TrimSpace(out) == "N"
	mode := "shared by all network namespaces"
	if exclusive {
		mode = "of one network namespace each"
	}
	r.report.Finding(exclusive == r.Exclusive, "RDMA devices", "%s", mode)
	return nil
}

// onHost are the host's RDMA devices with their interfaces.
func (r *run) onHost(ctx context.Context) (string, error) {
	return r.Shell(ctx, `cd /sys/class/infiniband && for d in *; do echo $d on $(cat $d/parent); done`)
}

// tries is how often a pod may begin anew for want of the lab's device: the container
// runtime does without a plugin that took two seconds, as the lab's may on a busy host.
const tries = 3

// began waits for a pod of manifests, and finds what it claimed. What stands for hardware in
// the lab has made the RDMA device on the pod's interface by then; where it has not, that is
// no fault of what is tried here, and the pod begins anew.
func (r *run) began(ctx context.Context, pod, manifests string) error {
	for try := 1; ; try++ {
		if err := harness.WaitForReady(ctx, r.Client, namespace, pod, poll, patience); err != nil {
			return err
		}
		device, err := r.claimed(ctx, pod)
		if err != nil {
			return err
		}
		r.devices[pod] = device
		// The kernel has ended it on the host, so that one of this name is the pod's.
		there, err := r.Kubectl.Shell(ctx, namespace, pod, `[ ! -e /sys/class/infiniband/$1 ] || echo yes`, device)
		if err != nil {
			return err
		}
		if made := there != ""; made || try == tries {
			r.report.Finding(made, pod, "has %s, as the lab makes it, at try %d", device, try)
			return nil
		}
		if err := r.again(ctx, pod, manifests); err != nil {
			return err
		}
	}
}

// again has a pod begin anew.
func (r *run) again(ctx context.Context, pod, manifests string) error {
	if err := harness.DeletePod(ctx, r.Client, namespace, pod, 1); err != nil {
		return err
	}
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) { return harness.PodGone(ctx, r.Client, namespace, pod) })
	if err != nil {
		return fmt.Errorf("wait for the end of pod %s: %w", pod, err)
	}
	_, err = r.Kubectl.RunWithInput(ctx, manifests, "apply", "-n", namespace, "-f", "-")
	return err
}

// started waits for a pod and looks at what it has.
func (r *run) started(ctx context.Context, pod string) error {
	if err := r.began(ctx, pod, manifests); err != nil {
		return err
	}
	device := r.devices[pod]
	// In the pod by name and numbers, on the host by RDMA device, name and numbers.
	const (
		inPod  = `cd /dev/infiniband && for f in *; do echo $f $((0x$(stat -c %t $f))):$((0x$(stat -c %T $f))); done`
		onHost = `cd /sys/class/infiniband_verbs && for f in uverbs*; do echo $(cat $f/ibdev) $f $(cat $f/dev); done`
	)
	has, err := r.Kubectl.Shell(ctx, namespace, pod, inPod)
	if err != nil {
		return err
	}
	all, err := r.Shell(ctx, onHost)
	if err != nil {
		return err
	}
	r.report.Finding(hasOwnFile(has, all, device), pod, "claimed %s, and has of /dev/infiniband: %s", device, strings.Join(lines(has), ", "))
	return r.told(ctx, pod)
}

// hasOwnFile says whether the one file of verbs that a pod has is that of its RDMA device.
func hasOwnFile(has, all, device string) bool {
	verbs := slices.DeleteFunc(lines(has), func(file string) bool { return !strings.HasPrefix(file, "uverbs") })
	return len(verbs) == 1 && slices.Contains(lines(all), device+" "+verbs[0])
}

// lines are those of a script's output.
func lines(out string) []string { return strings.Split(strings.TrimSpace(out), "\n") }

// told compares what the container was told with what its own /sys says.
func (r *run) told(ctx context.Context, pod string) error {
	const look = `echo $NCCL_IB_HCA $UCX_NET_DEVICES $NCCL_SOCKET_IFNAME
echo $NCCL_IB_GID_INDEX
ports=/sys/class/infiniband/$1/ports/1
cat $ports/gids/$NCCL_IB_GID_INDEX $ports/gid_attrs/types/$NCCL_IB_GID_INDEX
grep -c 'class="0x02' $NCCL_TOPO_FILE
grep -l $1 /var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/rdma/nic/dra.net-metadata.json
ulimit -l`
	out, err := r.Kubectl.Shell(ctx, namespace, pod, look, r.devices[pod])
	if err != nil && out == "" {
		return err
	}
	r.report.Finding(toldRight(out, r.devices[pod], addresses[pod]), "  was told", "%s", strings.Join(strings.Fields(out), " "))
	return nil
}

// toldRight says whether a container's variables name the RDMA device and the interface,
// and the index of a RoCE v2 GID of the address, whether the files of the claim are
// there, and whether any amount of memory may be locked.
func toldRight(out, device string, address netip.Addr) bool {
	said := lines(out)
	if len(said) != 7 {
		return false
	}
	gid, err := netip.ParseAddr(said[2])
	return err == nil && gid.Unmap() == address && said[3] == "RoCE v2" &&
		said[0] == fmt.Sprintf("=%[1]s:1 %[1]s:1 =%[2]s", device, ifname) &&
		said[4] == "1" && strings.HasSuffix(said[5], "dra.net-metadata.json") && said[6] == "unlimited"
}

// claimed is the RDMA device of the NIC that a pod's claim holds, as the slices say.
func (r *run) claimed(ctx context.Context, pod string) (string, error) {
	return r.ClaimedNIC(ctx, namespace, pod, slicecodec.AttrRDMADevice)
}

// returned deletes pods and wants the host to have all RDMA devices again.
func (r *run) returned(ctx context.Context, before string, pods ...string) error {
	for _, pod := range pods {
		if err := harness.DeletePod(ctx, r.Client, namespace, pod, 1); err != nil {
			return err
		}
	}
	var after string
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		after, err = r.onHost(ctx)
		return after == before, err
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	for _, pod := range pods {
		r.report.Finding(sameDevice(before, after, r.devices[pod]), pod, "the host has %s again", r.devices[pod])
	}
	r.report.Finding(after == before, "the host's RDMA devices", "%s", strings.Join(lines(after), ", "))
	return nil
}

// sameDevice says whether the host has an RDMA device on the same interface as before.
func sameDevice(before, after, device string) bool {
	at := slices.IndexFunc(lines(before), func(line string) bool { return strings.HasPrefix(line, device+" on ") })
	return at >= 0 && slices.Contains(lines(after), lines(before)[at])
}
