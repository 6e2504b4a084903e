// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metrics

// Kinds of metrics, as Prometheus names them.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// Steps of preparing a claim, in their order. Total is the whole of it, also
// where a step has failed.
const (
	// StepLock is the wait for the claim's lock.
	StepLock = "lock"
	// StepRead is the look at the kernel that a plan is made from.
	StepRead = "read"
	// StepPlan is the decision, under the driver's allocation lock, and its
	// journaling.
	StepPlan = "plan"
	// StepConfine has other containers leave what the claim holds.
	StepConfine = "confine"
	// StepStage is the slow work on the device itself, such as DHCP.
	StepStage = "stage"
	// StepCDI is the writing of the CDI file.
	StepCDI   = "cdi"
	StepTotal = "total"
)

// Calls of the kubelet.
const (
	CallPrepare   = "prepare"
	CallUnprepare = "unprepare"
)

// Places where the agent says no. The container runtime and the kubelet ask
// again.
const (
	HookPrepare         = "Prepare"
	HookUnprepare       = "Unprepare"
	HookRunPodSandbox   = "RunPodSandbox"
	HookCreateContainer = "CreateContainer"
	HookStartContainer  = "StartContainer"
)

// Definition is one metric as its readers see it.
type Definition struct {
	// Name is the whole name, with the prefix.
	Name string
	// Kind is counter, gauge or histogram; histograms are in seconds.
	Kind string
	// Labels in the order of their values.
	Labels []string
	// Help says what is counted.
	Help string
}

const prefix = "plumbline_agent_"

var (
	attachSeconds  = Definition{prefix + "attach_seconds", histogram, []string{"driver", "result"}, "Time to bring the devices of one claim into a pod; repairs that found nothing to do are in it."}
	detachSeconds  = Definition{prefix + "detach_seconds", histogram, []string{"driver", "result"}, "Time to bring the devices of one claim back to the host, as they were."}
	prepareSeconds = Definition{prefix + "prepare_seconds", histogram, []string{"driver", "step"}, "Time that preparing one claim took, by step; total is the whole."}
	claimCalls     = Definition{prefix + "claims_total", counter, []string{"driver", "call", "result", "reason"}, "Claims that the kubelet asked to prepare or to unprepare; reason is the step of preparing that failed, runtime where the container runtime was away, withdrawn where the node's labels no longer match, other, or nothing."}
	nodeCPUs       = Definition{prefix + "cpus", gauge, []string{"numa_node", "state"}, "CPUs of each NUMA node by what they are for: allocated to claims, available to claims, reserved, or offline."}
	cpusPerClaim   = Definition{prefix + "claim_cpus", gauge, []string{"cpus"}, "Prepared claims by how many CPUs they hold."}
	claimsPrepared = Definition{prefix + "claims_prepared", gauge, []string{"driver"}, "Claims that are prepared on this node now."}
	devicesHeld    = Definition{prefix + "devices_held", gauge, []string{"driver"}, "Devices that prepared claims hold now."}
	devicesOffered = Definition{prefix + "devices_published", gauge, []string{"driver"}, "Devices in the node's ResourceSlices, those that claims hold included."}
	devicesTainted = Definition{prefix + "devices_unhealthy", gauge, []string{"driver"}, "Published devices that carry a taint for their health."}
	restores       = Definition{prefix + "restores_total", counter, []string{"driver", "result"}, "Claims whose devices were brought back and compared with what the journal remembers."}
	repairs        = Definition{prefix + "repairs_total", counter, []string{"driver", "result"}, "Claims that did not look as the journal says, and were put right or not."}
	pinWrites      = Definition{prefix + "pin_writes_total", counter, nil, "Sets of CPUs or memory nodes written into containers' control groups."}
	quotasLifted   = Definition{prefix + "quotas_lifted_total", counter, nil, "Quotas of CPU time taken from containers with CPUs of their own, and from their pods."}
	pinRepairs     = Definition{prefix + "pin_repairs_total", counter, []string{"container"}, "Containers that somebody else had moved and that were put back, by what they are: exclusive, with CPUs of their own, or shared."}
	publishWrites  = Definition{prefix + "publish_writes_total", counter, []string{"driver"}, "Changes of what the driver publishes; attaching and detaching must not count here."}
	hookRefusals   = Definition{prefix + "hook_refusals_total", counter, []string{"hook"}, "Answers of no, by the call that was refused. Whoever asked asks again."}
	netlinkResyncs = Definition{prefix + "netlink_resyncs_total", counter, nil, "Times that kernel events were lost and the whole host was read anew."}
	runtimeJoins   = Definition{prefix + "runtime_connections_total", counter, nil, "Connections to the container runtime, each followed by a comparison of all claims."}
	verifiedPods   = Definition{prefix + "verified_pods", gauge, []string{"verdict"}, "Pods with claims by what the kernel said of them at the last look: Aligned, AsClaimed (and farther apart than the machine could have given, or that is not known), Misaligned (not as claimed) or Unknown."}
	misalignments  = Definition{prefix + "misalignments_total", counter, []string{"reason"}, "Pods that were found not to be as claimed and had not been found so before, by the reason in their claims' condition AsClaimed."}
	verifySeconds  = Definition{prefix + "verify_seconds", histogram, nil, "Time that one look at all pods with claims took."}
	unansweredPods = Definition{prefix + "verify_unanswered_pods", gauge, nil, "Pods whose file system or memory does not answer, each of which keeps a thread of the agent waiting; their verdict is Unknown."}
	hostFindings   = Definition{prefix + "host_findings", gauge, []string{"check", "severity"}, "What checks of the host found wrong at the last look, by check and by its severity: functional, performance or information. Each check has a series, zero where nothing is wrong; no series where hosts are not checked."}
	statusFailures = Definition{prefix + "status_write_failures_total", counter, nil, "Writes of claim status that failed and are tried again."}
)

// Definitions lists the agent's own metrics in the order of the documentation.
func Definitions() []Definition {
	return []Definition{
		attachSeconds, detachSeconds, prepareSeconds, claimCalls, claimsPrepared, devicesHeld, nodeCPUs, cpusPerClaim, restores, repairs, pinWrites, pinRepairs, quotasLifted, hookRefusals,
		devicesOffered, devicesTainted, hostFindings, publishWrites, netlinkResyncs, runtimeJoins, statusFailures,
		verifiedPods, misalignments, verifySeconds, unansweredPods,
	}
}

// seconds are the upper bounds of the histograms' buckets. Attaching takes some
// 20 ms; a hook must end within 2 s, a Prepare within the kubelet's minutes.
var seconds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60}
