// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of what containers get of the host. The API server takes at most 10 KiB of
// parameters at once (resource.k8s.io, OpaqueParametersMaxLength).
const (
	maxMounts    = 16
	maxPath      = 1024
	maxVariables = 64
	maxValue     = 4096
)

// reservedPaths are those of a container at, above and below which nothing of the host is
// mounted: what the kernel and the container runtime put there, and the files by which
// plumbline tells containers of their devices. /var/run is a link to /run in nearly all
// images, so that one path would have two names.
var reservedPaths = []string{"/dev", "/proc", "/sys", "/run/plumbline", "/run/kubernetes.io", "/var/run"}

// variableName is a C identifier of at most 128 letters, so that every shell has the
// variable.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// Variables that plumbline sets itself: the marks of claims, and what environment: nccl
// says.
var (
	ownPrefixes   = []string{"PLUMBLINE_", "DRA_CPUSET_"}
	ncclVariables = []string{"NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME", "NCCL_TOPO_FILE", "UCX_NET_DEVICES"}
)

// The mistakes are none that another layer could set right: one of type Required would be
// told to an administrator as if a claim could.
func (c *ContainerConfig) validate(p *field.Path) field.ErrorList {
	return append(checkMounts(p.Child("mounts"), c.Mounts), checkVariables(p.Child("env"), c.Env)...)
}

func checkMounts(p *field.Path, mounts []MountConfig) field.ErrorList {
	if len(mounts) > maxMounts {
		return field.ErrorList{field.TooMany(p, len(mounts), maxMounts)}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, m := range mounts {
		errs = append(errs, checkPath(p.Index(i).Child("hostPath"), m.HostPath)...)
		at := p.Index(i).Child("containerPath")
		if e := checkPath(at, m.ContainerPath); len(e) > 0 {
			errs = append(errs, e...)
			continue
		}
		text := *m.ContainerPath
		if seen[text] {
			errs = append(errs, field.Duplicate(at, text))
		}
		seen[text] = true
		for _, reserved := range reservedPaths {
			if text == reserved || strings.HasPrefix(text, reserved+"/") || strings.HasPrefix(reserved, text+"/") {
				errs = append(errs, field.Invalid(at, text, "is at, above or below "+reserved+
					", which is the system's and plumbline's: want a path of its own, such as /usr/local/gib"))
				break
			}
		}
	}
	return errs
}

// checkPath refuses what is not a path from the root that names one place, in one way.
func checkPath(p *field.Path, text *string) field.ErrorList {
	const want = `want an absolute path such as /usr/local/gib, not "/" alone, without "..", "." and a slash at its end`
	switch {
	case text == nil:
		return field.ErrorList{field.Invalid(p, "", want)}
	case len(*text) > maxPath:
		return field.ErrorList{field.TooLong(p, "", maxPath)}
	case !path.IsAbs(*text) || path.Clean(*text) != *text || *text == "/" || strings.ContainsFunc(*text, unicode.IsControl):
		return field.ErrorList{field.Invalid(p, *text, want)}
	}
	return nil
}

func checkVariables(p *field.Path, env map[string]string) field.ErrorList {
	if len(env) > maxVariables {
		return field.ErrorList{field.TooMany(p, len(env), maxVariables)}
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(env)) {
		at := p.Key(name)
		switch {
		case !variableName.MatchString(name):
			errs = append(errs, field.Invalid(at, name, "want a variable's name: 1-128 letters, digits and '_', no digit first"))
		case slices.ContainsFunc(ownPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
			errs = append(errs, field.Invalid(at, name, "is a name that plumbline marks containers by: want another"))
		case slices.Contains(ncclVariables, name):
			errs = append(errs, field.Invalid(at, name, "is set by environment: nccl, which knows the devices of each container: want that, or it in the pod"))
		}
		if v := env[name]; len(v) > maxValue || strings.ContainsFunc(v, unicode.IsControl) {
			errs = append(errs, field.Invalid(at, v, fmt.Sprintf("want at most %d bytes on one line, without control characters", maxValue)))
		}
	}
	return errs
}
