// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package claims

// Step is a point after which a crash leaves the host or the disk different
// from before.
type Step string

// All steps, in their order. A test kills the agent after each.
const (
	StepPlanned        Step = "planned"         // the plan is journaled
	StepConfined       Step = "confined"        // no container runs on the claim's CPUs
	StepStaged         Step = "staged"          // the devices are as the plan wants them
	StepStageJournaled Step = "stage journaled" // what staging learned is journaled
	StepSpecWritten    Step = "spec written"    // the CDI file is there
	StepAttached       Step = "attached"        // the devices are in the pod
	StepDetached       Step = "detached"        // the devices are on the host
	StepUnstaged       Step = "unstaged"        // the devices are as they were
	StepSpecRemoved    Step = "spec removed"    // the CDI file is gone
	StepForgotten      Step = "forgotten"       // the record is gone
	StepSetFree        Step = "set free"        // containers have the claim's CPUs back
)

// Steps lists them.
func Steps() []Step {
	return []Step{
		StepPlanned, StepConfined, StepStaged, StepStageJournaled, StepSpecWritten, StepAttached,
		StepDetached, StepUnstaged, StepSpecRemoved, StepForgotten, StepSetFree,
	}
}

// ReportStep says to OnStep that a step is complete.
func (p *Preparer) ReportStep(s Step) {
	if p.OnStep != nil {
		p.OnStep(s)
	}
}
