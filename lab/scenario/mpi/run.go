// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"plumbline.dev/plumbline/lab/scenario"
	"plumbline.dev/plumbline/lab/scenario/harness"
)

const (
	patience = 3 * time.Minute
	poll     = 500 * time.Millisecond
)

// Namespaces of the job and of the operator.
const (
	namespace = "plumblab-mpi"
	operator  = "mpi-operator"
)

// Objects of the example: its job, the class of its claims, and the interface in a worker.
const (
	allreduceJob   = "nccl-test-dranet-1gpu-1nic"
	allreduceClass = "dranet-rdma-for-mpi"
	ifname         = "dranet0"
)

// workersOf are a job's.
func workersOf(job string) []string { return []string{job + "-worker-0", job + "-worker-1"} }

// beside is how many bytes a worker may send by its pod's own interface: ssh, and what
// mpirun tells its daemons, take a hundredth of what the allreduce does.
const beside = 1 << 20

// arm is one run of the job: the NICs that its claims may take are all that differs.
type arm struct{ nics []string }

// documentedNICs are those of the example.
var documentedNICs = []string{"nic0", "nic1"}

var arms = []arm{{documentedNICs}, {[]string{"nic4", "nic5"}}}

// selects is how the template says which NICs.
func selects(nics []string) string { return `in ["` + strings.Join(nics, `", "`) + `"]` }

// manifest is the example's, for the NICs of an arm.
func (a arm) manifest(example string) (string, error) {
	documented := selects(documentedNICs)
	if n := strings.Count(example, documented); n != 1 {
		return "", fmt.Errorf("the example has %q %d times, want once", documented, n)
	}
	return strings.Replace(example, documented, selects(a.nics), 1), nil
}

// Config is what a run is to know.
type Config struct {
	harness.Cluster

	Kubectl   scenario.Kubectl
	Plumbline scenario.Plumbline
	// Example is the folder of the overlay whose job adds up, and Training of that whose jobs
	// train.
	Example, Training string
	// Operator is the folder of the MPI operator's manifests, and OperatorProgram the
	// program in its image.
	Operator, OperatorProgram string
	// APIHost and APIPort are where pods find the API server.
	APIHost, APIPort string
}

type run struct {
	Config
	report harness.Report
}

// Run goes through all steps, prints what it finds, and leaves nothing of its own.
func Run(ctx context.Context, c Config) error {
	r := &run{Config: c, report: harness.Report{Scenario: "mpi", Out: c.Out}}
	return r.report.Verdict(harness.Run(ctx, patience, r.cleanUp, r.steps))
}

// cleanUp has the jobs gone before the operator, which takes their pods away.
func (r *run) cleanUp(ctx context.Context) error {
	if err := harness.DeleteNamespace(ctx, r.Client, namespace, patience); err != nil {
		return err
	}
	_, classErr := r.Kubectl.Run(ctx, "delete", "deviceclass", "--ignore-not-found", allreduceClass, trainingClass)
	_, operatorErr := r.Kubectl.Run(ctx, "delete", "--ignore-not-found", "-k", r.Operator)
	_, fabricErr := r.Shell(ctx, removeFabric)
	return errors.Join(classErr, operatorErr, fabricErr)
}

// Prepare has the operator run and the NICs joined, for jobs of another scenario. The cluster
// is to go with them.
func Prepare(ctx context.Context, c Config) error {
	r := &run{Config: c, report: harness.Report{Scenario: "mpi", Out: c.Out}}
	return r.prepare(ctx)
}

func (r *run) prepare(ctx context.Context) error {
	if err := r.install(ctx); err != nil {
		return err
	}
	if _, err := r.Shell(ctx, makeFabric); err != nil {
		return fmt.Errorf("join the NICs' far ends: %w", err)
	}
	return nil
}

func (r *run) steps(ctx context.Context) error {
	before, err := r.links(ctx)
	if err != nil {
		return err
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	example, err := r.Kubectl.Run(ctx, "kustomize", r.Example)
	if err != nil {
		return err
	}
	for _, a := range arms {
		if err := r.runJob(ctx, a, example); err != nil {
			return err
		}
	}
	if err := r.train(ctx); err != nil {
		return err
	}
	return r.end(ctx, before)
}

// The other ends of the node's NICs are joined as a switch would join them.
const (
	makeFabric = `ip link add fabric type bridge && ip link set fabric up
for far in $(cd /sys/class/net; echo farnic*); do ip link set $far master fabric || exit 1; done`
	removeFabric = `[ ! -e /sys/class/net/fabric ] || ip link del fabric`
)

// links are the node's, and their addresses, as the kernel has them.
func (r *run) links(ctx context.Context) (string, error) {
	return r.Shell(ctx, `for l in /sys/class/net/*; do case $l in */veth*) ;; *) echo ${l##*/}; esac; done; ip -o -4 address show | grep -v veth | sed 's/^[0-9]*: //' | sort`)
}

// install has the MPI operator run, by the document's own command. Its pod finds the API
// server where the lab has it: there is no service proxy.
func (r *run) install(ctx context.Context) error {
	if _, err := r.Kubectl.Run(ctx, "apply", "--server-side", "-k", r.Operator); err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"mpi-operator","command":[%q],"env":[`+
		`{"name":"KUBERNETES_SERVICE_HOST","value":%q},{"name":"KUBERNETES_SERVICE_PORT","value":%q}]}]}}}}`,
		r.OperatorProgram, r.APIHost, r.APIPort)
	if _, err := r.Kubectl.Run(ctx, "patch", "-n", operator, "deployment/mpi-operator", "--patch", patch); err != nil {
		return err
	}
	out, err := r.Kubectl.Run(ctx, "rollout", "status", "-n", operator, "deployment/mpi-operator", "--timeout="+patience.String())
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	r.report.Finding(true, "the MPI operator", "%s", lines[len(lines)-1])
	return nil
}

// runJob runs the job with the NICs of an arm and looks at what it did.
func (r *run) runJob(ctx context.Context, a arm, example string) error {
	manifest, err := a.manifest(example)
	if err != nil {
		return err
	}
	return r.try(ctx, allreduceJob, a.nics, manifest, func(log string) (least int, err error) {
		got, err := readResult(log)
		if err != nil {
			return 0, err
		}
		workers := workersOf(allreduceJob)
		r.report.Finding(got.right(len(workers)), "  the result", "%s", got)
		ranks := hosts(log)
		slices.Sort(ranks)
		r.report.Finding(slices.Equal(ranks, workers), "  the ranks", "ran on %s", strings.Join(ranks, ", "))
		return got.least(), nil
	})
}

// try applies a manifest with a job, waits for the job, has somebody read its launcher's log,
// who knows how many bytes each worker must have sent at least, looks at its workers and takes
// all of it away.
func (r *run) try(ctx context.Context, job string, nics []string, manifest string, read func(log string) (least int, err error)) error {
	fmt.Fprintf(r.Out, "\n  MPIJob %s whose workers claim %s\n", job, strings.Join(nics, " or "))
	if err := harness.CreateNamespace(ctx, r.Client, namespace); err != nil {
		return err
	}
	before, err := r.onNode(ctx)
	if err != nil {
		return err
	}
	if _, err := r.Kubectl.RunWithInput(ctx, manifest, "apply", "-n", namespace, "-f", "-"); err != nil {
		return err
	}
	log, err := r.finished(ctx, job)
	if err != nil {
		return err
	}
	least, err := read(log)
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, log)
	}
	if err := r.examine(ctx, job, nics, before, least); err != nil {
		return err
	}
	return r.deleteJob(ctx, nics)
}

// finished waits for the job and returns what its launcher said.
func (r *run) finished(ctx context.Context, job string) (string, error) {
	var state string
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		state, err = r.Kubectl.Run(ctx, "get", "mpijob", "-n", namespace, job, "-o",
			`jsonpath={range .status.conditions[?(@.status=="True")]}{.type} {end}`)
		done := slices.ContainsFunc(strings.Fields(state), func(s string) bool { return s == "Succeeded" || s == "Failed" })
		return done, err
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return "", err
	}
	log, logErr := r.Kubectl.Run(ctx, "logs", "-n", namespace, "job/"+job+"-launcher", "--tail=-1")
	if err != nil || !slices.Contains(strings.Fields(state), "Succeeded") {
		events, _ := r.Kubectl.Run(ctx, "events", "-n", namespace)
		return "", fmt.Errorf("MPIJob %s is %q, want Succeeded: %w\n%s\n%s", job, state, errors.Join(err, logErr), log, events)
	}
	r.report.Finding(true, "  MPIJob "+job, "%s", strings.TrimSpace(state))
	return log, logErr
}

// onNode are the links of the node.
func (r *run) onNode(ctx context.Context) (map[string]link, error) {
	out, err := r.Shell(ctx, sentScript)
	if err != nil {
		return nil, err
	}
	return readLinks(out)
}

// examine looks at the workers, which stay when the launcher has ended: what each claimed,
// and what its interfaces have sent.
func (r *run) examine(ctx context.Context, job string, nics []string, before map[string]link, least int) error {
	taken := map[string]bool{}
	for _, worker := range workersOf(job) {
		nic, err := r.ClaimedNIC(ctx, namespace, worker, "dra.net/ifName")
		if err != nil {
			return err
		}
		r.report.Finding(slices.Contains(nics, nic) && !taken[nic], "  "+worker, "claimed %s", nic)
		taken[nic] = true
		out, err := r.Kubectl.Shell(ctx, namespace, worker, sentScript)
		if err != nil {
			return err
		}
		inside, err := readLinks(out)
		if err != nil {
			return fmt.Errorf("pod %s: %w", worker, err)
		}
		r.moved(nic, before[nic], inside, least)
		if err := r.verified(ctx, worker); err != nil {
			return err
		}
	}
	return nil
}

// moved compares what a worker has sent with what it must at least. The claimed NIC
// is known by its address, and had sent something on the node.
func (r *run) moved(nic string, before link, inside map[string]link, least int) {
	claimed := inside[ifname]
	r.report.Finding(before.address != "" && claimed.address == before.address, "    "+ifname, "is %s, by its address %s", nic, claimed.address)
	sent, own := claimed.sent-before.sent, inside["eth0"].sent
	r.report.Finding(sent >= least && own <= beside, "    sent", "%d bytes by %s, of at least %d that are added up; %d by eth0",
		sent, ifname, least, own)
}

// verified waits until plumbline verify says that a worker has what it claimed.
func (r *run) verified(ctx context.Context, worker string) error {
	var answer scenario.Answer
	err := harness.WaitFor(ctx, time.Second, patience, func() (bool, error) {
		var err error
		answer, err = r.Plumbline.Run(ctx, "verify", "pod/"+worker, "-n", namespace)
		return answer.Code == 0, err
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	said := "as claimed"
	if err != nil {
		said = answer.Ending() + "\n" + answer.Out
	}
	r.report.Finding(err == nil, "    plumbline verify", "%s", said)
	return nil
}

// deleteJob deletes the job, with which its pods and their claims go, and the NICs return.
func (r *run) deleteJob(ctx context.Context, nics []string) error {
	if err := harness.DeleteNamespace(ctx, r.Client, namespace, patience); err != nil {
		return err
	}
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		links, err := r.onNode(ctx)
		missing := slices.ContainsFunc(nics, func(nic string) bool { _, there := links[nic]; return !there })
		return !missing, err
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	r.report.Finding(err == nil, "  the job is deleted", "the node has %s again", strings.Join(nics, " and "))
	return nil
}

// end has all of it gone, and the node as before.
func (r *run) end(ctx context.Context, before string) error {
	if err := r.cleanUp(ctx); err != nil {
		return err
	}
	var after string
	err := harness.WaitFor(ctx, poll, patience, func() (bool, error) {
		var err error
		after, err = r.links(ctx)
		return after == before, err
	})
	if err != nil && !errors.Is(err, harness.ErrTimeout) {
		return err
	}
	left, listErr := r.Kubectl.Run(ctx, "get", "customresourcedefinition,namespace", "-o", "name")
	gone := !strings.Contains(left, "mpi")
	fmt.Fprintln(r.Out)
	r.report.Finding(err == nil && listErr == nil && gone, "without operator and jobs", "no object of theirs is left, and the node's links are as before")
	return listErr
}
