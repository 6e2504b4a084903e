// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"

	"plumbline.dev/plumbline/deploy"
	"plumbline.dev/plumbline/deploy/render"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/controlplane"
)

// install puts plumbline into the cluster as its users do: the chart, with
// simulated GPUs since the guest has no others, and the device classes that
// are not there yet. restart says that the agent's image has changed.
func (c *Cluster) install(ctx context.Context, b *ArtifactBuilder, cp *controlplane.ControlPlane, o Options, node string, restart bool) error {
	task := b.progress.Start("plumbline agent")
	if err := c.installAll(ctx, cp, o, node, restart); err != nil {
		task.Fail()
		return err
	}
	task.Done("published its slices")
	return nil
}

func (c *Cluster) installAll(ctx context.Context, cp *controlplane.ControlPlane, o Options, node string, restart bool) error {
	manifests, err := render.Chart(deploy.Namespace, o.chartValues(cp))
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, manifests); err != nil {
		return fmt.Errorf("install plumbline: %w", err)
	}
	client, err := clientOf(cp)
	if err != nil {
		return err
	}
	if err := createClasses(ctx, client, deploy.DeviceClasses()); err != nil {
		return err
	}
	agent := []string{"-n", deploy.Namespace, "daemonset/" + deploy.AgentServiceAccount}
	if restart {
		// The tag is the old one: nothing else shows that its image is new.
		if err := c.pipe(ctx, nil, append([]string{"rollout", "restart"}, agent...)...); err != nil {
			return err
		}
	}
	const agentPatience = "3m"
	if err := c.pipe(ctx, nil, append([]string{"rollout", "status", "--timeout=" + agentPatience}, agent...)...); err != nil {
		return fmt.Errorf("%w (plumblab kubectl -- logs -n %s ds/%s)", err, deploy.Namespace, deploy.AgentServiceAccount)
	}
	if !o.NoOperator {
		if err := c.operatorRuns(ctx, restart); err != nil {
			return err
		}
	}
	drivers := []string{slicecodec.DriverNet, slicecodec.DriverCPU, slicecodec.DriverGPU}
	if o.OnHost {
		drivers = drivers[:2] // no GPUs are simulated there
	}
	return waitSlices(ctx, client, node, drivers)
}

// operatorRuns waits for what runs once in a cluster.
func (c *Cluster) operatorRuns(ctx context.Context, restart bool) error {
	operator := []string{"-n", deploy.Namespace, "deployment/" + deploy.OperatorServiceAccount}
	if restart {
		if err := c.pipe(ctx, nil, append([]string{"rollout", "restart"}, operator...)...); err != nil {
			return err
		}
	}
	if err := c.pipe(ctx, nil, append([]string{"rollout", "status", "--timeout=3m"}, operator...)...); err != nil {
		return fmt.Errorf("%w (plumblab kubectl -- logs -n %s deployment/%s)", err, deploy.Namespace, deploy.OperatorServiceAccount)
	}
	return nil
}

// chartValues are the values the lab's installation differs in from the
// chart's own.
func (o Options) chartValues(cp *controlplane.ControlPlane) map[string]any {
	host, port := cp.GuestAddress()
	values := map[string]any{
		"namespace": map[string]any{"create": true},
		// Made apart, since rendering asks no cluster which are there.
		"deviceClasses": map[string]any{"create": []any{}},
		// Nothing runs on simulated nodes.
		"nodeSelector": map[string]any{realLabel: "true"},
		"operator":     map[string]any{"enabled": !o.NoOperator, "nodeSelector": map[string]any{realLabel: "true"}},
		// The lab runs no service proxy.
		"apiServer": map[string]any{"host": host, "port": port},
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
	values["drivers"] = map[string]any{"gpu": map[string]any{"mode": "simulated", "machine": o.agentMachine()}}
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

// createClasses creates the device classes that are absent. One that is there
// belongs to somebody else.
func createClasses(ctx context.Context, client kubernetes.Interface, manifests []byte) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		var class resourcev1.DeviceClass
		err := decoder.Decode(&class)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read device classes: %w", err)
		}
		if class.Name == "" {
			continue // a comment between two separators
		}
		_, err = client.ResourceV1().DeviceClasses().Create(ctx, &class, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create device class %s: %w", class.Name, err)
		}
	}
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
	agent := []string{"-n", deploy.Namespace, "daemonset/" + deploy.AgentServiceAccount}
	if err := c.pipe(ctx, nil, append([]string{"rollout", "restart"}, agent...)...); err != nil {
		return err
	}
	return c.pipe(ctx, nil, append([]string{"rollout", "status", "--timeout=3m"}, agent...)...)
}
