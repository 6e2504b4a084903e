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
	"strconv"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

	Kubectl scenario.Kubectl
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
	for _, m := range measurements {
		if err := r.measure(ctx, m); err != nil {
			return err
		}
	}
	if err := r.alignment(ctx); err != nil {
		return err
	}
	return r.returned(ctx, before)
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

// started waits for a pod and finds what it claimed.
func (r *run) started(ctx context.Context, pod string) error {
	if err := harness.WaitForReady(ctx, r.Client, namespace, pod, poll, patience); err != nil {
		return err
	}
	device, err := r.claimed(ctx, pod)
	if err != nil {
		return err
	}
	r.devices[pod] = device
	files, err := r.Kubectl.Shell(ctx, namespace, pod, "ls /dev/infiniband 2>&1")
	if err != nil && files == "" {
		return err
	}
	r.report.Finding(strings.Count(files, "uverbs") == 1, pod, "claimed %s, and has of /dev/infiniband: %s", device, strings.Join(strings.Fields(files), ", "))
	return r.told(ctx, pod)
}

// told compares what the container was told with what its own /sys says.
func (r *run) told(ctx context.Context, pod string) error {
	const look = `echo $NCCL_IB_HCA $UCX_NET_DEVICES $NCCL_SOCKET_IFNAME
echo $NCCL_IB_GID_INDEX
ports=/sys/class/infiniband/$1/ports/1
cat $ports/gids/$NCCL_IB_GID_INDEX $ports/gid_attrs/types/$NCCL_IB_GID_INDEX
grep -c 'class="0x02' $NCCL_TOPO_FILE
grep -l $1 /var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/rdma/nic/dra.net-metadata.json`
	out, err := r.Kubectl.Shell(ctx, namespace, pod, look, r.devices[pod])
	if err != nil && out == "" {
		return err
	}
	r.report.Finding(toldRight(out, r.devices[pod], addresses[pod]), "  was told", "%s", strings.Join(strings.Fields(out), " "))
	return nil
}

// toldRight says whether a container's variables name the RDMA device and the interface,
// and the index of a RoCE v2 GID of the address, and whether the files of the claim are
// there.
func toldRight(out, device string, address netip.Addr) bool {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 6 {
		return false
	}
	gid, err := netip.ParseAddr(lines[2])
	return err == nil && gid.Unmap() == address && lines[3] == "RoCE v2" &&
		lines[0] == fmt.Sprintf("=%[1]s:1 %[1]s:1 =%[2]s", device, ifname) &&
		lines[4] == "1" && strings.HasSuffix(lines[5], "dra.net-metadata.json")
}

// claimed is the RDMA device of the NIC that a pod's claim holds, as the slices say.
func (r *run) claimed(ctx context.Context, pod string) (string, error) {
	p, err := r.Client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if len(p.Status.ResourceClaimStatuses) != 1 || p.Status.ResourceClaimStatuses[0].ResourceClaimName == nil {
		return "", fmt.Errorf("pod %s has no claim", pod)
	}
	claim, err := r.Client.ResourceV1().ResourceClaims(namespace).Get(ctx, *p.Status.ResourceClaimStatuses[0].ResourceClaimName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if claim.Status.Allocation == nil {
		return "", fmt.Errorf("the claim of pod %s holds no device", pod)
	}
	results := claim.Status.Allocation.Devices.Results
	i := slices.IndexFunc(results, func(d resourceapi.DeviceRequestAllocationResult) bool { return d.Driver == slicecodec.DriverNet })
	if i < 0 {
		return "", fmt.Errorf("the claim of pod %s holds no NIC", pod)
	}
	published, err := r.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + r.Node + ",spec.driver=" + slicecodec.DriverNet,
	})
	if err != nil {
		return "", err
	}
	return rdmaDevice(published.Items, results[i].Device)
}

// rdmaDevice is that of a published NIC.
func rdmaDevice(published []resourceapi.ResourceSlice, nic string) (string, error) {
	for _, s := range published {
		for _, d := range s.Spec.Devices {
			if name := d.Attributes[slicecodec.AttrRDMADevice].StringValue; d.Name == nic && name != nil {
				return *name, nil
			}
		}
	}
	return "", fmt.Errorf("no slice names the RDMA device of NIC %s", nic)
}

// measurement is one run of a command of perftest.
type measurement struct {
	// command is without the device and the server's address, as the mission has it;
	// iterations are few, since processors are emulated.
	command string
	// row begins the line of the result that is printed, bytes are the least that the
	// claimed NIC must have sent, once for each message.
	row   string
	bytes int
}

const (
	latencyRounds = 200
	perSize       = 5
	largest       = 8 << 20
)

// latency measures that of a write.
var latency = measurement{command: fmt.Sprintf("ib_write_lat -F -n %d", latencyRounds), row: "2", bytes: latencyRounds * 2}

var measurements = []measurement{
	latency,
	{command: fmt.Sprintf("ib_write_bw -a -F --report_gbits -q 1 -n %d", perSize), row: strconv.Itoa(largest), bytes: perSize * (2*largest - 2)},
}

// measure runs a command between the pods and looks at the claimed NIC's counters.
func (r *run) measure(ctx context.Context, m measurement) error {
	before, err := r.counters(ctx)
	if err != nil {
		return err
	}
	const serve = `timeout 600 $1 -d $2 >/tmp/server.log 2>&1 &`
	if _, err := r.Kubectl.Shell(ctx, namespace, server, serve, m.command, r.devices[server]); err != nil {
		return err
	}
	// The server may not listen yet.
	const ask = `i=0; until timeout 600 $1 -d $2 $3 >/tmp/client.log 2>&1; do [ $((i=i+1)) -lt 20 ] || break; sleep 1; done; cat /tmp/client.log`
	out, err := r.Kubectl.Shell(ctx, namespace, client, ask, m.command, r.devices[client], addresses[server].String())
	if err != nil {
		return err
	}
	after, err := r.counters(ctx)
	if err != nil {
		return err
	}
	row := result(out, m.row)
	r.report.Finding(row != "", m.command, "%s", row)
	if row == "" {
		fmt.Fprint(r.Out, out)
	}
	sent, beside := after[ifname]-before[ifname], after["eth0"]-before["eth0"]
	r.report.Finding(sent >= m.bytes && beside < sent, "  counted", "%d bytes by the claimed NIC, %d by eth0", sent, beside)
	return nil
}

// counters are what the client's interfaces have sent, in bytes.
func (r *run) counters(ctx context.Context) (map[string]int, error) {
	out, err := r.Kubectl.Shell(ctx, namespace, client, `cd /sys/class/net; for i in *; do echo $i $(cat $i/statistics/tx_bytes); done`)
	if err != nil {
		return nil, err
	}
	sent := map[string]int{}
	for line := range strings.Lines(out) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			return nil, fmt.Errorf("read the counter of %s: %w", name, err)
		}
		sent[name] = n
	}
	return sent, nil
}

// result is the row of a table of perftest that begins with this number of bytes, under
// the table's head, or empty.
func result(out, bytes string) string {
	var head string
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		switch {
		case len(words) > 0 && words[0] == "#bytes":
			head = line
		case head != "" && len(words) > 2 && words[0] == bytes:
			return strings.Join(words, " ") + " (" + strings.Join(strings.Fields(head), " ") + ")"
		}
	}
	return ""
}

// returned deletes the pods and wants the host to have all RDMA devices again.
func (r *run) returned(ctx context.Context, before string) error {
	for _, pod := range []string{server, client} {
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
	r.report.Finding(after == before, "the host has its RDMA devices again", "%s", strings.Join(strings.Split(strings.TrimSpace(after), "\n"), ", "))
	return nil
}
