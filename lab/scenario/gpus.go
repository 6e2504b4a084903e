// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/lab/node"
	"plumbline.dev/plumbline/lab/scenario/claimcheck"
)

// tutorialGPU is the GPU that the tutorial's page prints.
//
//go:embed tutorial_gpu.yaml
var tutorialGPU []byte

// publishedGPU compares what NVIDIA's driver publishes with the tutorial's page.
func (d Demo) publishedGPU(ctx context.Context) (bool, error) {
	d.heading("The tutorial's first GPU, as NVIDIA's driver publishes it here")
	var list resourceapi.ResourceSliceList
	if err := d.Kubectl.Get(ctx, &list, "resourceslices", "--field-selector", "spec.nodeName="+d.Node+",spec.driver="+slicecodec.DriverGPU); err != nil {
		return false, err
	}
	var printed resourceapi.Device
	if err := yaml.UnmarshalStrict(tutorialGPU, &printed); err != nil {
		return false, fmt.Errorf("read the tutorial's GPU: %w", err)
	}
	v := asPrinted(list.Items, d.Node, printed)
	fmt.Fprintf(d.Out, "  %s  %s: %s\n", claimcheck.Mark(v.OK), v.What, v.Why)
	return v.OK, nil
}

// sharers are the pods that name the claim of the GPU that is used in turns.
var sharers = []string{"sharing-1", "sharing-2"}

const sharedClaim = "shared-gpu"

// timeSlicing has NVIDIA's driver prepare a claim with a configuration of theirs, of which
// two pods get the same GPU.
func (d Demo) timeSlicing(ctx context.Context) (bool, error) {
	d.heading("One GPU in turns: two pods, one claim, NVIDIA's time-slicing")
	// Nothing runs on the nodes that only publish, and their GPUs would do as well.
	if err := d.closeSimulated(ctx, true); err != nil {
		return false, err
	}
	if _, err := d.Kubectl.Run(ctx, "apply", "-k", d.overlay("gpu-time-slicing")); err != nil {
		return false, err
	}
	ok := true
	say := func(v claimcheck.Result) { d.say(v); ok = ok && v.OK }
	var held []string
	for _, pod := range sharers {
		if err := d.waitForPod(ctx, "default", pod); err != nil {
			return false, err
		}
		o, err := examine(ctx, d.Kubectl, "default", pod, sharedClaim)
		if err != nil {
			return false, err
		}
		for _, v := range slices.Concat(o.FromInside, o.FromNode) {
			if !v.OK {
				say(v)
			}
		}
		for _, gpu := range o.OnNode.GPUs {
			held = append(held, gpu.Address.String())
		}
		answer, err := d.cli().Verify(ctx, "default", pod)
		if err != nil {
			return false, err
		}
		say(claimcheck.Result{What: "plumbline verify finds " + pod + " as it claims", OK: answer.Code == 0, Why: answer.Ending()})
	}
	say(claimcheck.Result{
		What: "both pods have one GPU, the same", Why: strings.Join(held, ", "),
		OK: len(held) == len(sharers) && len(slices.Compact(slices.Clone(held))) == 1,
	})
	settings, err := d.Kubectl.Shell(ctx, probeNamespace, probePod, "cat /proc/1/root"+node.NVIDIADriverRoot+"/etc/nvml-standin/settings")
	if err != nil {
		return false, fmt.Errorf("read what NVIDIA's driver had nvidia-smi set: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(settings), "\n")
	last := lines[len(lines)-1]
	say(claimcheck.Result{
		What: "NVIDIA's driver set the GPU's time-slice to short", Why: "nvidia-smi " + last,
		OK: strings.HasPrefix(last, "compute-policy ") && strings.HasSuffix(last, " --set-timeslice 1"),
	})
	return ok, nil
}

// closeSimulated keeps new pods from nodes that only publish slices, or lets them there
// again.
func (d Demo) closeSimulated(ctx context.Context, closed bool) error {
	verb := "uncordon"
	if closed {
		verb = "cordon"
	}
	_, err := d.Kubectl.Run(ctx, verb, "--selector", "plumbline.dev/simulated=true")
	return err
}

// attrUUID is the one attribute in which the driver may differ from the page: a UUID is a
// board's own.
const attrUUID resourceapi.QualifiedName = "uuid"

// asPrinted wants one slice of a node, whose spec is as the page prints it, and in it the
// page's device, field by field.
func asPrinted(published []resourceapi.ResourceSlice, node string, printed resourceapi.Device) claimcheck.Result {
	v := claimcheck.Result{What: printed.Name + " as the page prints it"}
	if len(published) != 1 {
		v.Why = fmt.Sprintf("%d slices, printed one", len(published))
		return v
	}
	got := published[0].Spec
	i := slices.IndexFunc(got.Devices, func(one resourceapi.Device) bool { return one.Name == printed.Name })
	if i < 0 {
		v.Why = "no slice has it"
		return v
	}
	device := *got.Devices[i].DeepCopy()
	if id := device.Attributes[attrUUID].StringValue; id != nil {
		device.Attributes[attrUUID] = printed.Attributes[attrUUID]
	}
	// The page's node has all its GPUs in one slice, of the first generation: each start of the
	// driver may add one.
	got.Devices = nil
	want := resourceapi.ResourceSliceSpec{
		Driver: slicecodec.DriverGPU, NodeName: &node,
		Pool: resourceapi.ResourcePool{Name: node, Generation: max(1, got.Pool.Generation), ResourceSliceCount: 1},
	}
	wrong, err := differences(device, printed)
	if err == nil {
		var more []string
		more, err = differences(got, want)
		wrong = append(wrong, more...)
	}
	switch {
	case err != nil:
		v.Why = err.Error()
	case len(wrong) > 0:
		v.Why = strings.Join(wrong, "; ")
	default:
		v.OK, v.Why = true, "every field of it and of its slice but the uuid; numaNode besides, which the page's release did not know"
	}
	return v
}

// differences are the fields in which a published object is not as the printed one.
func differences(published, printed any) ([]string, error) {
	got, err1 := fieldsOf(published)
	want, err2 := fieldsOf(printed)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	all := maps.Clone(want)
	maps.Copy(all, got)
	var wrong []string
	for _, field := range slices.Sorted(maps.Keys(all)) {
		g, there := got[field]
		w, known := want[field]
		switch {
		case !known:
			wrong = append(wrong, fmt.Sprintf("%s %s is not on the page", field, g))
		case !there:
			wrong = append(wrong, fmt.Sprintf("%s absent, printed %s", field, w))
		case g != w:
			wrong = append(wrong, fmt.Sprintf("%s %s, printed %s", field, g, w))
		}
	}
	return wrong, nil
}

// fieldsOf are the fields of an object as kubectl prints them, with their values.
func fieldsOf(object any) (map[string]string, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var parsed any
	if err := json.Unmarshal(text, &parsed); err != nil {
		return nil, err
	}
	fields := map[string]string{}
	addFields(fields, "", parsed)
	return fields, nil
}

func addFields(fields map[string]string, at string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, one := range value {
			addFields(fields, strings.TrimPrefix(at+" "+name, " "), one)
		}
	case []any:
		for i, one := range value {
			addFields(fields, fmt.Sprintf("%s[%d]", at, i), one)
		}
	default:
		fields[at] = fmt.Sprint(value)
	}
}
