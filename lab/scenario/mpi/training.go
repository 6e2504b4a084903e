// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/bench/tools/mfu"
)

// trainingClass is the class of the training's claims.
const trainingClass = "dranet.net"

// trainings are the document's two jobs: the NICs that their templates select are all in which
// they differ. On this host's one NUMA node neither is nearer to anything.
var trainings = []struct {
	job  string
	nics []string
}{
	{"mpi-job-4gpu-4nic-numa-aligned", documentedNICs},
	{"mpi-job-4gpu-4nic-numa-unaligned", []string{"nic4", "nic5"}},
}

// trainingSteps are those that the overlay asks for, with those before they are timed.
const trainingSteps = 2 + 10

// train runs the document's jobs one after the other.
func (r *run) train(ctx context.Context) error {
	objects, err := r.Kubectl.Run(ctx, "kustomize", r.Training)
	if err != nil {
		return err
	}
	for _, t := range trainings {
		manifest, err := withJob(objects, t.job)
		if err != nil {
			return err
		}
		err = r.try(ctx, t.job, t.nics, manifest, func(log string) (least int, err error) {
			return r.trained(t.job, log)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// withJob leaves out all MPIJobs but one.
func withJob(objects, job string) (string, error) {
	found := 0
	all := slices.DeleteFunc(strings.Split(objects, "\n---\n"), func(object string) bool {
		if !strings.Contains("\n"+object, "\nkind: MPIJob\n") {
			return false
		}
		this := strings.Contains(object, "\n  name: "+job+"\n")
		if this {
			found++
		}
		return !this
	})
	if found != 1 {
		return "", fmt.Errorf("the example has MPIJob %s %d times, want once", job, found)
	}
	return strings.Join(all, "\n---\n"), nil
}

// trained reads what a launcher printed, whose last line must be the result of two ranks. least
// is how many bytes each of them had to send, which are its gradients.
func (r *run) trained(job, log string) (least int, err error) {
	got, err := mfu.Parse(strings.NewReader(log))
	if err != nil {
		return 0, err
	}
	lines := strings.Split(strings.TrimSpace(log), "\n")
	last := lines[len(lines)-1]
	r.report.Finding(strings.HasPrefix(last, "MFU_RESULT "), "  the last line", "%s", last)
	r.report.Finding(got.WorldSize == len(workersOf(job)) && got.Backend == "gloo", "  the ranks", "%d, which add up by %s", got.WorldSize, got.Backend)
	weights := got.Shape.Hidden * got.Shape.Hidden * got.Shape.Layers
	return result{ranks: got.WorldSize, rounds: trainingSteps, bytes: int(4 * weights)}.least(), nil
}
