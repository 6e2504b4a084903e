// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/cpuset"
)

// Validate checks a merged configuration, and returns every mistake at once.
func (c *CPUConfig) Validate() error { return c.Mistakes().ToAggregate() }

// Mistakes are what Validate finds, as those of NetworkConfig.
func (c *CPUConfig) Mistakes() field.ErrorList {
	errs := oneOf(field.NewPath("l3"), c.L3, L3Pack, L3Spread)
	errs = append(errs, checkCPUList(field.NewPath("cpuset"), c.CPUSet)...)
	if older := c.CPUConfig; older != nil {
		p := field.NewPath("cpuConfig", "cpuset")
		errs = append(errs, checkCPUList(p, older.CPUSet)...)
		if older.CPUSet != nil && c.CPUSet != nil {
			errs = append(errs, field.Forbidden(p, "is the older place of cpuset: want one of them"))
		}
	}
	if c.CoreTypes != nil {
		errs = append(errs, c.CoreTypes.mistakes(field.NewPath("coreTypes"))...)
	}
	return errs
}

func (c *CoreTypesConfig) mistakes(p *field.Path) field.ErrorList {
	kinds := []string{CoreStandard, CorePerformance, CoreEfficiency}
	errs := oneOf(p.Child("prefer"), c.Prefer, kinds...)
	exclude := p.Child("exclude")
	for i, kind := range c.Exclude {
		errs = append(errs, oneOf(exclude.Index(i), &kind, kinds...)...)
		if slices.Contains(c.Exclude[:i], kind) {
			errs = append(errs, field.Duplicate(exclude.Index(i), kind))
		}
	}
	if c.Prefer != nil && slices.Contains(c.Exclude, *c.Prefer) {
		errs = append(errs, field.Invalid(p.Child("prefer"), *c.Prefer, "is excluded: want a kind that may be taken"))
	}
	if len(errs) == 0 && len(c.Exclude) == len(kinds) {
		errs = append(errs, field.Invalid(exclude, strings.Join(c.Exclude, ", "), "leaves no kind of core: want one that may be taken"))
	}
	return errs
}

func checkCPUList(p *field.Path, list *string) field.ErrorList {
	if list == nil {
		return nil
	}
	if _, err := parseCPUList(*list); err != nil {
		return field.ErrorList{field.Invalid(p, *list, err.Error())}
	}
	return nil
}

// cpusAtMost is above what any kernel numbers (CONFIG_NR_CPUS).
const cpusAtMost = 65536

// parseCPUList reads a user's list of CPUs. It checks the bounds of a range first, since
// parsing expands it.
func parseCPUList(list string) (cpuset.CPUSet, error) {
	bad := func(part string) (cpuset.CPUSet, error) {
		return cpuset.New(), fmt.Errorf("%q: want numbers below %d and ascending ranges of them, such as 2-5,8", part, cpusAtMost)
	}
	if list == "" {
		return cpuset.New(), nil
	}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.ParseUint(first, 10, 16)
		to, errTo := strconv.ParseUint(last, 10, 16)
		if errFrom != nil || errTo != nil || to < from {
			return bad(part)
		}
	}
	cpus, err := cpuset.Parse(list)
	if err != nil {
		return bad(list)
	}
	return cpus, nil
}
