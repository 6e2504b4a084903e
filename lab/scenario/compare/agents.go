// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// Agent is a driver of NICs, as it is installed: a DaemonSet of one container.
// Both go by the driver name dra.net, so only one is there at a time.
type Agent struct {
	Namespace, DaemonSet string
	// Process is the name of its process (/proc/PID/comm).
	Process string
}

// DRANET is the driver that ours is measured beside, as DRANETManifest has it.
var DRANET = Agent{Namespace: "kube-system", DaemonSet: "dranet", Process: "dranet"}

//go:embed dranet.yaml
var dranetManifest string

// DRANETManifest installs DRANET as its own manifest does, but for its image, the
// API server's address, and its filter, which would leave virtual links out. Where it is
// off, Measure turns it on.
func DRANETManifest(image, apiHost, apiPort string, on bool) ([]byte, error) {
	t, err := template.New("dranet").Parse(dranetManifest)
	if err != nil {
		return nil, err
	}
	values := map[string]string{"Image": image, "Host": apiHost, "Port": apiPort}
	if !on {
		values["Off"] = offLabel
	}
	var out bytes.Buffer
	err = t.Execute(&out, values)
	return out.Bytes(), err
}

// offLabel is one that no node has: a DaemonSet that wants it is off.
const offLabel = "plumblab.dev/nowhere"

// turn switches an agent on or off, and waits until it is: on, it has published
// all NICs; off, its pods and its slices are gone.
func (r *run) turn(ctx context.Context, a Agent, on bool) error {
	var want *string // null takes the label out of a merged map
	if !on {
		empty := ""
		want = &empty
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"nodeSelector": map[string]*string{offLabel: want},
	}}}})
	if err != nil {
		return err
	}
	_, err = r.Client.AppsV1().DaemonSets(a.Namespace).Patch(ctx, a.DaemonSet, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("turn %s on: %t: %w", a.DaemonSet, on, err)
	}
	wait, what := r.gone, "gone"
	if on {
		wait, what = r.serves, "serving"
	}
	if err := harness.WaitFor(ctx, 200*time.Millisecond, patience, func() (bool, error) { return wait(ctx, a) }); err != nil {
		return fmt.Errorf("wait until %s is %s: %w", a.DaemonSet, what, err)
	}
	return nil
}

// gone says whether no process of the agent is left, and removes its slices then:
// the kubelet would leave them for half a minute.
func (r *run) gone(ctx context.Context, a Agent) (bool, error) {
	if pids, err := r.processes(ctx, a); err != nil || len(pids) > 0 {
		return false, err
	}
	err := r.Client.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, r.slices())
	return err == nil, err
}

// serves says whether the agent is ready and has published every NIC.
func (r *run) serves(ctx context.Context, a Agent) (bool, error) {
	set, err := r.Client.AppsV1().DaemonSets(a.Namespace).Get(ctx, a.DaemonSet, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	s := set.Status
	if s.ObservedGeneration < set.Generation || s.DesiredNumberScheduled != 1 || s.NumberReady != 1 || s.UpdatedNumberScheduled != 1 {
		return false, nil
	}
	published, err := r.Client.ResourceV1().ResourceSlices().List(ctx, r.slices())
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(r.NICs, func(nic string) bool { return !publishes(published.Items, nic) }), nil
}

func publishes(list []resourceapi.ResourceSlice, nic string) bool {
	return slices.ContainsFunc(list, func(s resourceapi.ResourceSlice) bool {
		return slices.ContainsFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return d.Name == nic })
	})
}

// slices chooses those of NICs on the node.
func (r *run) slices() metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + r.Node + "," +
		resourceapi.ResourceSliceSelectorDriver + "=" + slicecodec.DriverNet}
}

// processesScript finds processes by the name that the kernel keeps of them.
const processesScript = `for process in /proc/[0-9]*; do
	read -r comm <"$process/comm" && [ "$comm" = "$1" ] && echo "${process#/proc/}"
done 2>/dev/null
exit 0`

func (r *run) processes(ctx context.Context, a Agent) ([]string, error) {
	out, err := r.Shell(ctx, processesScript, a.Process)
	return strings.Fields(out), err
}

// Memory is what an agent weighs, in bytes: all that is resident, and its share of
// it where pages are shared (proc_pid_smaps(5)).
type Memory struct{ Resident, Proportional int64 }

const memoryScript = `awk '/^Rss:/ { rss = $2 } /^Pss:/ { pss = $2 } END { print rss, pss }' "/proc/$1/smaps_rollup"`

func (r *run) memory(ctx context.Context, a Agent) (m Memory, err error) {
	pids, err := r.processes(ctx, a)
	if err != nil || len(pids) != 1 {
		return m, fmt.Errorf("find the process of %s: %d, want one: %w", a.DaemonSet, len(pids), err)
	}
	out, err := r.Shell(ctx, memoryScript, pids[0])
	if err != nil {
		return m, fmt.Errorf("read the memory of %s: %w", a.DaemonSet, err)
	}
	if _, err := fmt.Sscan(out, &m.Resident, &m.Proportional); err != nil {
		return m, fmt.Errorf("read the memory of %s from %q: %w", a.DaemonSet, out, err)
	}
	return Memory{Resident: m.Resident << 10, Proportional: m.Proportional << 10}, nil
}
