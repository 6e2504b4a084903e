// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	_ "embed"
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
	v := asPrinted(list.Items, printed)
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
		answer, err := d.plumbline(ctx, "verify", "pod/"+pod, "-n", "default")
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

// Of a GPU's attributes, those in which the driver may differ from the page: a UUID is a
// board's own, and v0.5.0 is the first that knows the NUMA node.
const attrUUID resourceapi.QualifiedName = "uuid"

// asPrinted wants a device in the slices that is as the page prints it.
func asPrinted(published []resourceapi.ResourceSlice, printed resourceapi.Device) claimcheck.Result {
	v := claimcheck.Result{What: printed.Name + " as the page prints it"}
	for _, s := range published {
		i := slices.IndexFunc(s.Spec.Devices, func(one resourceapi.Device) bool { return one.Name == printed.Name })
		if i < 0 {
			continue
		}
		wrong := differences(s.Spec.Devices[i], printed)
		v.OK, v.Why = len(wrong) == 0, "every field but the uuid; numaNode besides, which the page's release did not know"
		if !v.OK {
			v.Why = strings.Join(wrong, "; ")
		}
		return v
	}
	v.Why = "no slice has it"
	return v
}

// differences are what of a published device is not as on the page.
func differences(published, printed resourceapi.Device) []string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(printed.Attributes)) {
		got, want := attributeText(published.Attributes, name), attributeText(printed.Attributes, name)
		if name != attrUUID && got != want {
			wrong = append(wrong, fmt.Sprintf("%s %s, printed %s", name, got, want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(published.Attributes)) {
		if _, known := printed.Attributes[name]; !known && name != slicecodec.AttrNUMANode {
			wrong = append(wrong, fmt.Sprintf("%s %s is not on the page", name, attributeText(published.Attributes, name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(printed.Capacity)) {
		got, want := published.Capacity[name].Value, printed.Capacity[name].Value
		if got.String() != want.String() {
			wrong = append(wrong, fmt.Sprintf("capacity %s %s, printed %s", name, got.String(), want.String()))
		}
	}
	return wrong
}

// attributeText is an attribute as kubectl would print it.
func attributeText(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, name resourceapi.QualifiedName) string {
	attribute, ok := attributes[name]
	if !ok {
		return "absent"
	}
	text, err := yaml.Marshal(attribute)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}
