// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	controllerCPU = "cpu"
	unlimited     = "max"
)

// Quota is how much CPU time the tasks of a group may use together in each
// period (Documentation/scheduler/sched-bwc.rst).
type Quota struct {
	// Time is nil where nothing limits it.
	Time   *time.Duration
	Period time.Duration
}

// String is such as "50ms of 100ms", or "unlimited".
func (q Quota) String() string {
	if q.Time == nil {
		return "unlimited"
	}
	return fmt.Sprintf("%s of %s", *q.Time, q.Period)
}

// Quota reads cpu.max, or version 1's two files.
func (g Group) Quota() (Quota, error) {
	var text string
	var err error
	if g.h.unified {
		text, err = g.read(controllerCPU, "cpu.max")
	} else {
		var quota, period string
		quota, err = g.read(controllerCPU, "cpu.cfs_quota_us")
		if err == nil {
			period, err = g.read(controllerCPU, "cpu.cfs_period_us")
		}
		if quota == "-1" {
			quota = unlimited
		}
		text = quota + " " + period
	}
	if err != nil {
		return Quota{}, err
	}
	q, err := parseQuota(text)
	if err != nil {
		return Quota{}, fmt.Errorf("control group %s: %w", g, err)
	}
	return q, nil
}

// parseQuota reads cpu.max: "max 100000" or "50000 100000", in microseconds.
func parseQuota(text string) (Quota, error) {
	limit, period, ok := strings.Cut(text, " ")
	microseconds := func(s string) (time.Duration, error) {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("cpu.max %q: want microseconds, or max, and a period in microseconds", text)
		}
		return time.Duration(n) * time.Microsecond, nil
	}
	if !ok {
		_, err := microseconds("")
		return Quota{}, err
	}
	var q Quota
	var err error
	if q.Period, err = microseconds(period); err != nil || limit == unlimited {
		return q, err
	}
	t, err := microseconds(limit)
	if err != nil {
		return Quota{}, err
	}
	q.Time = &t
	return q, nil
}

// LiftQuota takes the limit away and says whether there was one. The group's
// weight stays.
func (g Group) LiftQuota() (lifted bool, err error) {
	q, err := g.Quota()
	if err != nil || q.Time == nil {
		return false, err
	}
	if g.h.unified {
		return true, g.write(controllerCPU, "cpu.max", unlimited)
	}
	return true, g.write(controllerCPU, "cpu.cfs_quota_us", "-1")
}

// SetQuota gives the group a limit back, such as one that LiftQuota took.
func (g Group) SetQuota(q Quota) error {
	limit, period := unlimited, fmt.Sprint(q.Period.Microseconds())
	if q.Time != nil {
		limit = fmt.Sprint(q.Time.Microseconds())
	}
	if g.h.unified {
		return g.write(controllerCPU, "cpu.max", limit+" "+period)
	}
	if q.Time == nil {
		limit = "-1"
	}
	// The period first: a limit is refused that no period around allows.
	if err := g.write(controllerCPU, "cpu.cfs_period_us", period); err != nil {
		return err
	}
	return g.write(controllerCPU, "cpu.cfs_quota_us", limit)
}
