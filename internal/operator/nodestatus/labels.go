// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
)

// Labels as Node Feature Discovery sets them, with the network operator's
// configuration of it: functions of a vendor, and the kernel.
const (
	labelNVIDIA   = "feature.node.kubernetes.io/pci-10de.present"
	labelMellanox = "feature.node.kubernetes.io/pci-15b3.present"
	labelKernel   = "feature.node.kubernetes.io/kernel-version.full"
)

// labelSetup is on nodes that have something to do for plumbline-host-setup, which runs
// there alone.
const labelSetup = hosts.LabelHostSetup

// labelKeys are all labels that are set here; the chart's admission policy lists them,
// too.
var labelKeys = []string{labelKernel, labelNVIDIA, labelMellanox, labelSetup}

// ownLabels is the annotation that names the labels of a node that were set here,
// separated by commas: those are changed and removed, and no others.
const ownLabels = hosts.AnnotationFeatureLabels

// discovered begins the annotations of Node Feature Discovery on nodes that it looks
// after.
const discovered = "nfd.node.kubernetes.io/"

// labelsOf are the labels that a report comes to.
func labelsOf(r *hosts.Report) map[string]string {
	all := map[string]string{}
	for _, d := range r.Profile.Devices {
		switch vendor, _, _ := strings.Cut(d.ID, ":"); vendor {
		case "10de":
			all[labelNVIDIA] = "true"
		case "15b3":
			all[labelMellanox] = "true"
		}
	}
	// A kernel's release may have "+" and more, which labels may not.
	if k := r.Profile.Kernel; k != "" && len(validation.IsValidLabelValue(k)) == 0 {
		all[labelKernel] = k
	}
	if r.SetupWanted {
		all[labelSetup] = "true"
	}
	return all
}

// change is what to do to a node's labels and annotations; nil removes one.
type change struct {
	labels, annotations map[string]*string
}

// labelChange compares a node with the labels that it should have. On a node that Node
// Feature Discovery looks after, its labels are left to it; a label that somebody else set
// is left as it is.
func labelChange(n *corev1.Node, want map[string]string) change {
	own := strings.FieldsFunc(n.Annotations[ownLabels], func(r rune) bool { return r == ',' })
	if hasPrefix(n.Annotations, discovered) {
		want = maps.Clone(want)
		maps.DeleteFunc(want, func(key, _ string) bool { return key != labelSetup })
	}
	c := change{labels: map[string]*string{}, annotations: map[string]*string{}}
	var kept []string
	for _, key := range labelKeys {
		value, wanted := want[key]
		now, there := n.Labels[key]
		ours := slices.Contains(own, key)
		switch {
		case there && !ours:
			continue
		case wanted:
			kept = append(kept, key)
			if now != value || !there {
				c.labels[key] = &value
			}
		case there:
			c.labels[key] = nil
		}
	}
	if text := strings.Join(kept, ","); text != n.Annotations[ownLabels] {
		c.annotations[ownLabels] = &text
		if text == "" {
			c.annotations[ownLabels] = nil
		}
	}
	return c
}

func hasPrefix(annotations map[string]string, prefix string) bool {
	for key := range annotations {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
