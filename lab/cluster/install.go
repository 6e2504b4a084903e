// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/controlplane"
)

// install puts plumbline into the cluster as its users do: by Helm, from a packed chart,
// with simulated GPUs where a virtual machine has no others, and after NVIDIA's driver where
// that serves them.
func (c *Cluster) install(ctx context.Context, b *ArtifactBuilder, artifacts *Artifacts, cp *controlplane.ControlPlane, o Options, node string) error {
	if o.GPUs == GPUsOfNVIDIA {
		if err := c.installNVIDIA(ctx, b, artifacts.NVIDIA.Chart, cp); err != nil {
			return err
		}
	}
	c.chart = artifacts.Chart
	task := b.progress.Start("plumbline")
	if err := c.installAll(ctx, artifacts.Chart, cp, o, node); err != nil {
		task.Fail()
		return err
	}
	task.Done("published its slices")
	return nil
}

func (c *Cluster) installAll(ctx context.Context, chart string, cp *controlplane.ControlPlane, o Options, node string) error {
	values, err := o.valuesFile(cp)
	if err != nil {
		return err
	}
	if err := c.forgetPending(ctx); err != nil {
		return err
	}
	_, err = c.Helm(ctx, values, "upgrade", "--install", release, chart,
		"--namespace", deploy.Namespace, "--create-namespace", "--values", "-")
	if err != nil {
		return fmt.Errorf("install plumbline: %w", err)
	}
	agent := deploy.AgentServiceAccount
	if o.Observe {
		agent = deploy.ObserverServiceAccount
	}
	if err := c.rolledOut(ctx, deploy.Namespace, "daemonset/"+agent); err != nil {
		return err
	}
	if !o.NoOperator {
		if err := c.rolledOut(ctx, deploy.Namespace, "deployment/"+deploy.OperatorServiceAccount); err != nil {
			return err
		}
	}
	if o.Observe {
		return nil
	}
	client, err := clientOf(cp)
	if err != nil {
		return err
	}
	drivers := []string{slicecodec.DriverNet, slicecodec.DriverCPU, slicecodec.DriverGPU}
	if o.OnHost || o.GPUs == GPUsNone {
		drivers = drivers[:2]
	}
	return waitSlices(ctx, client, node, drivers)
}

// Configure gives the installation other values of its chart, as YAML, and leaves all
// others as they are. Only who brought the cluster up may.
func (c *Cluster) Configure(ctx context.Context, values []byte) error {
	if _, err := c.Helm(ctx, values, "upgrade", release, c.chart, "--namespace", deploy.Namespace, "--reuse-values", "--values", "-"); err != nil {
		return fmt.Errorf("configure plumbline: %w", err)
	}
	return nil
}

// release is the installation's name for Helm.
const release = "plumbline"

// forgetPending has Helm forget what was begun when it was killed, which it takes for
// an installation that still goes on. Nobody else installs here: the cluster is locked.
func (c *Cluster) forgetPending(ctx context.Context) error {
	return c.pipe(ctx, nil, "delete", "secrets", "--namespace", deploy.Namespace,
		"--selector", "owner=helm,name="+release+",status in (pending-install,pending-upgrade,pending-rollback)")
}

// rolledOut waits until what a chart brings runs as the chart has it, on emulated processors
// that others may be busy with.
func (c *Cluster) rolledOut(ctx context.Context, namespace, workload string) error {
	err := c.pipe(ctx, nil, "rollout", "status", "--timeout=8m", "--namespace", namespace, workload)
	if err != nil {
		return fmt.Errorf("%w (plumblab kubectl -- logs -n %s %s)", err, namespace, workload)
	}
	return nil
}

// ChartValues is a file of the values that an installation in this lab takes.
func (c *Cluster) ChartValues(o Options) ([]byte, error) {
	cp, err := c.find()
	if err != nil {
		return nil, err
	}
	return o.valuesFile(cp)
}

func (o Options) valuesFile(cp *controlplane.ControlPlane) ([]byte, error) {
	values, err := yaml.Marshal(o.chartValues(cp))
	if err != nil {
		return nil, fmt.Errorf("write the chart's values: %w", err)
	}
	return values, nil
}

// chartValues are the values the lab's installation differs in from the
// chart's own.
func (o Options) chartValues(cp *controlplane.ControlPlane) map[string]any {
	host, port := cp.GuestAddress()
	values := map[string]any{
		// Nothing runs on simulated nodes.
		"nodeSelector": map[string]any{realLabel: "true"},
		"operator":     map[string]any{"enabled": !o.NoOperator, "nodeSelector": map[string]any{realLabel: "true"}},
		// The lab runs no service proxy.
		"apiServer": map[string]any{"host": host, "port": port},
		"observe":   o.Observe,
		// Nothing runs on simulated nodes, the agent neither.
		"nodeMatchExpressions": []any{map[string]any{"key": simulatedLabel, "operator": "DoesNotExist"}},
		"extraArgs":            o.cloudArgs(),
	}
	if o.OnHost {
		// Stand-ins are virtual, and nothing virtual is offered by itself.
		values["drivers"] = map[string]any{"net": map[string]any{"allowInterfaces": []any{"nic*"}}}
		if !o.UsersPace {
			// Pods live for a second or two here, and some are to be met in each
			// of their phases.
			values["verify"] = map[string]any{"interval": "1s"}
		}
		return values
	}
	// Also where GPUs are another's: the NICs are stand-ins.
	mode := GPUsSimulated
	if o.GPUs == GPUsOfNVIDIA || o.GPUs == GPUsNone {
		mode = "external"
	}
	values["drivers"] = map[string]any{"gpu": map[string]any{"mode": mode, "machine": o.agentMachine()}}
	if o.GPUs != GPUsOfNVIDIA {
		// No driver of NVIDIA's is there to bring its own.
		values["deviceClasses"] = map[string]any{"create": []any{
			"dra.net", "dranet", "dranet.net", "mrdma.google.com", "netdev.google.com", "shared.dra.net", "dra.cpu", "gpu.nvidia.com", "mig.nvidia.com",
		}}
	}
	// The kernel is the guest's own.
	values["hostSetup"] = map[string]any{"enabled": true}
	if o.agentMachine() != o.Machine {
		values["extraVolumes"] = []any{map[string]any{
			"name": "machine", "hostPath": map[string]any{"path": guestMachineFile, "type": "File"},
		}}
		values["extraVolumeMounts"] = []any{map[string]any{
			"name": "machine", "mountPath": guestMachineFile, "readOnly": true,
		}}
	}
	return values
}

// waitSlices returns once the node's agent has published devices of each of
// the missing drivers.
func waitSlices(ctx context.Context, client kubernetes.Interface, node string, missing []string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return false, err
		}
		for _, slice := range list.Items {
			// A TPU machine has no GPU to publish, and says so in an empty slice.
			if len(slice.Spec.Devices) > 0 || slice.Spec.Driver == slicecodec.DriverGPU {
				missing = slices.DeleteFunc(missing, func(driver string) bool { return driver == slice.Spec.Driver })
			}
		}
		return len(missing) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait for slices of %s on node %s: %w", strings.Join(missing, ", "), node, err)
	}
	return nil
}

// RollAgent replaces the agent's pod on every node, one after the other, as an
// upgrade does, and waits for the new ones.
func (c *Cluster) RollAgent(ctx context.Context) error {
	const agent = "daemonset/" + deploy.AgentServiceAccount
	if err := c.pipe(ctx, nil, "rollout", "restart", "--namespace", deploy.Namespace, agent); err != nil {
		return err
	}
	return c.rolledOut(ctx, deploy.Namespace, agent)
}
