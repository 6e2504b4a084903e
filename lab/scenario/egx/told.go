// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package egx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

// lint looks at the example's files as somebody does who has them from a cluster with
// Multus.
func (r *run) lint(ctx context.Context) error {
	answer, err := r.Plumbline.Run(ctx, "claim", "lint", "-f", filepath.Join(r.Example, "manifests"))
	if err != nil {
		return err
	}
	const warned = "metadata.annotations[k8s.v1.cni.cncf.io/networks]: is read by Multus, and by nobody"
	r.report.Finding(answer.Code == 0 && strings.Contains(answer.Out, "Pod "+firstPod+": warning: "+warned), "plumbline claim lint", "says of the annotation of Multus that nobody reads it")
	return nil
}

// told asks what plumbline says of a pod that has a limit and no claim of its own.
func (r *run) told(ctx context.Context) error {
	answer, err := r.Plumbline.Run(ctx, "explain", "pod/"+firstPod, "-n", namespace)
	if err != nil {
		return err
	}
	r.says(answer, "plumbline explain", "has dra.net/"+r.device)
	// Of a file too, where the scheduler has made no claim yet.
	if answer, err = r.Plumbline.Run(ctx, "explain", "-f", filepath.Join(r.Example, "manifests", "rdma-test-pod2.yaml")); err != nil {
		return err
	}
	r.says(answer, "plumbline explain -f", "is rdma/hca_shared_devices_a of container")
	if err := r.simulated(ctx); err != nil {
		return err
	}
	return r.verified(ctx, firstPod)
}

// simulated asks for how many such pods there is room beside the two that have a share.
func (r *run) simulated(ctx context.Context) error {
	text, err := r.example.of("DeviceClass "+className, "Pod "+firstPod)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "egx-*.yaml")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	answer, err := r.Plumbline.Run(ctx, "claim", "simulate", "-f", file.Name(), "--node", r.Node)
	if err != nil {
		return err
	}
	r.says(answer, "plumbline claim simulate", fmt.Sprintf("%d pods in all", articleSlots-2))
	return nil
}

// says wants a command to end well and to print these words.
func (r *run) says(answer scenario.Answer, what, words string) {
	var line string
	for l := range strings.Lines(answer.Out) {
		if strings.Contains(l, words) {
			line = strings.TrimSpace(l)
			break
		}
	}
	r.report.Finding(answer.Code == 0 && line != "", what, "%s", line)
	if line == "" {
		fmt.Fprintf(r.Out, "%s\n%s\n", answer.Ending(), answer.Out)
	}
}

// verified waits until plumbline verify says that a pod has what it claimed.
func (r *run) verified(ctx context.Context, pod string) error {
	var answer scenario.Answer
	err := harness.WaitFor(ctx, time.Second, patience, func() (bool, error) {
		var err error
		answer, err = r.Plumbline.Run(ctx, "verify", "pod/"+pod, "-n", namespace)
		return answer.Code == 0, err
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	r.says(answer, "plumbline verify", "claimed  True")
	r.says(answer, "  the link", ifname+"  ")
	return nil
}
