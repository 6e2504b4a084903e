// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"fmt"
	"strings"
)

// Status answers a question as a condition does.
type Status string

// The statuses.
const (
	True    Status = "True"
	False   Status = "False"
	Unknown Status = "Unknown"
)

// State is the result of one check.
type State string

// The states. A note changes no verdict.
const (
	StateOK      State = "ok"
	StateWrong   State = "WRONG"
	StateUnknown State = "unknown"
	StateNote    State = "note"
)

// Code says of what kind a finding is, in one word as conditions spell their
// reasons.
type Code string

// The codes.
const (
	// Nearest: no pair of the pod's components could be nearer on this machine.
	Nearest Code = "Nearest"
	// FartherThanPossible: the machine could have given a nearer pair.
	FartherThanPossible Code = "FartherThanPossible"
	// NoPairs: there are no two components of which the machine decides how near.
	NoPairs Code = "NoPairs"
	// AsClaimed: everything is.
	AsClaimed Code = "AsClaimed"
	// DeviceMissing: a claimed device is not in the pod.
	DeviceMissing Code = "DeviceMissing"
	// GPUNotKnown: which GPU a device plugin gave a container is not known.
	GPUNotKnown Code = "GPUNotKnown"
	// DeviceNotClaimed: a device is in the pod that no claim of it has.
	DeviceNotClaimed Code = "DeviceNotClaimed"
	// DeviceShared: a GPU, or an instance of one, that a claim has for itself is another
	// pod's too.
	DeviceShared Code = "DeviceShared"
	// LinkWrong: the pod's link on a shared NIC is of another kind, with another tag, or
	// down.
	LinkWrong Code = "LinkWrong"
	// AddressMissing: a link on a shared NIC has not the address that it was given.
	AddressMissing Code = "AddressMissing"
	// RDMAMissing: a pod does not see its RDMA device, or a container has no file of it.
	RDMAMissing Code = "RDMAMissing"
	// GIDMissing: an RDMA device has no RoCE v2 GID of an address of its interface.
	GIDMissing Code = "GIDMissing"
	// MemlockLimited: a container with an RDMA device may lock no more memory than its
	// runtime, and nobody set that limit.
	MemlockLimited Code = "MemlockLimited"
	// VFSettingsWrong: the physical function says otherwise of a virtual one than the
	// claim does.
	VFSettingsWrong Code = "VFSettingsWrong"
	// CPUsWrong: other CPUs than the claim's, or another number of them.
	CPUsWrong Code = "CPUsWrong"
	// CPUsShared: CPUs of a claim are another claim's too.
	CPUsShared Code = "CPUsShared"
	// MemoryWide: memory of other NUMA nodes than the CPUs' is allowed.
	MemoryWide Code = "MemoryWide"
	// ProcessOutside: a process is allowed CPUs that its container is not.
	ProcessOutside Code = "ProcessOutside"
	// ThreadOutside: a thread ran on a CPU that its container is not allowed.
	ThreadOutside Code = "ThreadOutside"
	// ConstraintBroken: the claim's constraint does not hold on this hardware.
	ConstraintBroken Code = "ConstraintBroken"
	// NotRead: something could not be read, or is published nowhere.
	NotRead Code = "NotRead"
	// NotRunning: the pod does not run, or has ended.
	NotRunning Code = "NotRunning"
)

// Difference is what is not as claimed, apart from the words about it.
type Difference struct {
	// Of is the device, by request and name, or the container.
	Of string
	// Attribute is the attribute that differs: one of a ResourceSlice by its full
	// name, else in a word or two.
	Attribute         string
	Claimed, Observed string
}

// Finding is one check and its result.
type Finding struct {
	State State
	Code  Code
	// Claim is the ResourceClaim it is about; empty for the pod as a whole.
	Claim string
	// What is expected, such as "nic-req is pci-0000-91-00-0".
	What string
	// Why gives the values that decided.
	Why string
	// Differs is what is WRONG; nil for other states.
	Differs *Difference
	// placeless findings are of what a device can do, and say nothing of where it is.
	placeless bool
}

// wrong flags what differs from the claim.
func (f *Finding) wrong(code Code, why string, d Difference) {
	f.State, f.Code, f.Why, f.Differs = StateWrong, code, why, &d
}

// Verdict says whether a pod, or one claim of it, is as claimed.
type Verdict struct {
	Status   Status
	Reason   Code
	Message  string
	Findings []Finding
}

// Conclude makes the verdict of findings.
func Conclude(findings []Finding) Verdict {
	v := Verdict{Status: True, Reason: AsClaimed, Findings: findings}
	var wrong, unknown []string
	for _, f := range findings {
		switch f.State {
		case StateWrong:
			if v.Status != False {
				v.Status, v.Reason = False, f.Code
			}
			wrong = append(wrong, f.String())
		case StateUnknown:
			if v.Status == True {
				v.Status, v.Reason = Unknown, f.Code
			}
			unknown = append(unknown, f.String())
		}
	}
	switch v.Status {
	case False:
		v.Message = strings.Join(wrong, "; ")
	case Unknown:
		v.Message = strings.Join(unknown, "; ")
	default:
		ok := 0
		for _, f := range findings {
			if f.State == StateOK {
				ok++
			}
		}
		v.Message = fmt.Sprintf("the kernel agrees with the claim in all it was asked (%d)", ok)
	}
	return v
}

// OfClaim is the verdict of one claim: its own findings, and the pod's.
func (v Verdict) OfClaim(name string) Verdict {
	var findings []Finding
	for _, f := range v.Findings {
		if f.Claim == "" || f.Claim == name {
			findings = append(findings, f)
		}
	}
	return Conclude(findings)
}

// Key is equal for verdicts that say the same, whatever figures they give:
// threads move all the time.
func (v Verdict) Key() string {
	var b strings.Builder
	b.WriteString(string(v.Status))
	for _, f := range v.Findings {
		if f.State == StateWrong || f.State == StateUnknown {
			fmt.Fprintf(&b, "\n%s %s %s", f.State, f.Code, f.What)
		}
	}
	return b.String()
}

// String is one clause.
func (f Finding) String() string { return f.What + ": " + f.Why }
