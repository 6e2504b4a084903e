// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package egx

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// patience is how long anything may take: the node's processors may be emulated.
const (
	patience = 5 * time.Minute
	poll     = 500 * time.Millisecond
)

// namespace has the pods, and plumbline's own are in the other one.
const (
	namespace = "plumblab-egx"
	plumbline = "plumbline-system"
)

// What the example's objects are called.
const (
	policyName, poolName = "rdma-net", "rdma-net"
	className            = "hca-shared-devices-a"
	firstPod, secondPod  = "rdma-test-pod-1", "rdma-test-pod-2"
)

// What the article prints of the pods' link.
const (
	ifname     = "net1"
	articleMTU = 9000
)

var network = netip.MustParsePrefix("192.168.111.0/24")

// articleSlots is rdmaHcaMax.
const articleSlots = 1000

// Config is what a run is to know.
type Config struct {
	harness.Cluster

	Kubectl scenario.Kubectl
	// Plumbline is asked what it says of the pods.
	Plumbline scenario.Plumbline
	// Example is the folder of examples/network-operator-egx.
	Example string
	// Hardware says that the node has RDMA devices and GPUs: all of the article is run.
	Hardware bool
}

type run struct {
	Config
	report  harness.Report
	example example
	// device is the published name of the shared NIC, link its interface on the host and
	// rdmaDevice its RDMA device, which may be none.
	device, link, rdmaDevice string
	// addresses are those of the test pods.
	addresses map[string]netip.Addr
}

// Run goes through the article, prints what it finds, and leaves nothing of its own.
func Run(ctx context.Context, c Config) error {
	r := &run{Config: c, report: harness.Report{Scenario: "egx", Out: c.Out}, addresses: map[string]netip.Addr{}}
	return r.report.Verdict(harness.Run(ctx, 2*patience, r.cleanUp, r.steps))
}

func (r *run) cleanUp(ctx context.Context) error {
	err := r.wakeOperator(ctx)
	for kind, name := range map[string]string{"hostpolicy": policyName, "networkaddresspool": poolName, "deviceclass": className} {
		_, failed := r.Kubectl.Run(ctx, "delete", kind, "--wait=false", "--ignore-not-found", name)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, harness.DeleteNamespace(ctx, r.Client, namespace, patience))
}

func (r *run) steps(ctx context.Context) error {
	before, err := r.onHost(ctx)
	if err != nil {
		return err
	}
	if err := r.choose(ctx); err != nil {
		return err
	}
	if r.example, err = readExample(ctx, r.Kubectl, r.Example, r.link, r.Image); err != nil {
		return err
	}
	steps := []func(context.Context) error{r.network, r.lint, r.create, r.told, r.withoutOperator}
	if r.Hardware {
		steps = append(steps, r.rdma, r.gpus)
	}
	for _, step := range append(steps, r.drain) {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return r.end(ctx, before)
}

// onHost are the node's links with their addresses, and its RDMA devices, as the kernel
// has them. What a pod's own link to the cluster leaves out is the lab's bridge of pods.
func (r *run) onHost(ctx context.Context) (string, error) {
	return r.Shell(ctx, `ip -o link show | sed 's/^[0-9]*: //; s/@if[0-9]*//; s/ state [A-Z]* / /; s/,LOWER_UP//; s/NO-CARRIER,//' | grep -v -e veth | sort
ip -o -4 address show | sed 's/^[0-9]*: //' | grep -v veth | sort
for d in /sys/class/infiniband/*; do test -e $d && echo ${d##*/} on $(cat $d/parent); done; true`)
}

// choose finds the article's NIC, or on a node without it the first that is offered.
func (r *run) choose(ctx context.Context) error {
	devices, err := r.devices(ctx)
	if err != nil {
		return err
	}
	for _, d := range devices {
		name := d.Attributes["dra.net/ifName"].StringValue
		if name != nil && (r.device == "" || *name == articleLink) {
			r.device, r.link, r.rdmaDevice = d.Name, *name, ptr.Deref(d.Attributes[slicecodec.AttrRDMADevice].StringValue, "")
		}
	}
	if r.device == "" {
		return fmt.Errorf("node %s offers no NIC with an interface", r.Node)
	}
	return nil
}

func (r *run) devices(ctx context.Context) ([]resourceapi.Device, error) {
	list, err := r.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + r.Node + ",spec.driver=" + slicecodec.DriverNet,
	})
	if err != nil {
		return nil, err
	}
	var devices []resourceapi.Device
	for _, s := range list.Items {
		devices = append(devices, s.Spec.Devices...)
	}
	return devices, nil
}

// awaitDevice waits until the NIC is published so, and returns how it was last.
func (r *run) awaitDevice(ctx context.Context, good func(resourceapi.Device) bool) (last resourceapi.Device, err error) {
	err = harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		devices, err := r.devices(ctx)
		for _, d := range devices {
			if d.Name == r.device {
				last = d
				return good(d), err
			}
		}
		return false, err
	})
	return last, err
}

func (r *run) apply(ctx context.Context, names ...string) error {
	text, err := r.example.of(names...)
	if err != nil {
		return err
	}
	_, err = r.Kubectl.RunWithInput(ctx, text, "apply", "-n", namespace, "-f", "-")
	return err
}

// network is what the article's operator, device plugin, Multus and whereabouts are there
// for.
func (r *run) network(ctx context.Context) error {
	if err := harness.CreateNamespace(ctx, r.Client, namespace); err != nil {
		return err
	}
	if err := r.apply(ctx, "HostPolicy "+policyName, "NetworkAddressPool "+poolName, "DeviceClass "+className, "ResourceClaimTemplate "+gpuTemplate); err != nil {
		return err
	}
	published, err := r.awaitDevice(ctx, func(d resourceapi.Device) bool {
		slots := d.Capacity[slicecodec.CapacitySlots].Value
		mtu := d.Attributes["dra.net/mtu"].IntValue
		return slots.Value() == articleSlots && mtu != nil && *mtu == articleMTU
	})
	if err != nil {
		reports, _ := r.Kubectl.Run(ctx, "get", "hostreport", r.Node, "-o", "jsonpath={.report.policies}")
		return fmt.Errorf("%s is published with capacity %v and attributes %v: %w; policies: %s", r.link, published.Capacity, published.Attributes, err, reports)
	}
	r.report.Finding(true, r.link+" is shared", "%d slots, MTU %d", articleSlots, articleMTU)
	return r.awaitPool(ctx, `{.status.conditions[?(@.type=="Ready")].status}`, "True")
}

// create is the article's creation of the test pods, what it shows of them, and its ping.
func (r *run) create(ctx context.Context) error {
	for _, pod := range []string{firstPod, secondPod} {
		if err := r.started(ctx, pod); err != nil {
			return err
		}
	}
	if err := r.ping(ctx, secondPod, r.addresses[firstPod]); err != nil {
		return err
	}
	return r.used(ctx, "2")
}

// started creates a pod of the example and wants its link to be as the article prints it.
func (r *run) started(ctx context.Context, pod string) error {
	if err := r.apply(ctx, "Pod "+pod); err != nil {
		return err
	}
	if err := harness.WaitForReady(ctx, r.Client, namespace, pod, poll, patience); err != nil {
		return err
	}
	out, err := r.Kubectl.Run(ctx, "exec", "-n", namespace, pod, "--", "ip", "addr", "show", "dev", ifname)
	if err != nil {
		return err
	}
	l, err := parseLink(out)
	if err != nil {
		return fmt.Errorf("pod %s: %w", pod, err)
	}
	r.addresses[pod] = l.address.Addr()
	first, _, _ := strings.Cut(out, "\n")
	r.report.Finding(l.asPrinted(), pod, "Running; %s; inet %s", first, l.address)
	return nil
}

func (r *run) ping(ctx context.Context, from string, to netip.Addr) error {
	out, err := r.Kubectl.Shell(ctx, namespace, from, "ping -c 3 -W 5 $1 || true", to.String())
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	r.report.Finding(strings.Contains(out, " 0% packet loss"), from+" pings "+to.String(), "%s", lines[max(0, len(lines)-2)])
	return nil
}
