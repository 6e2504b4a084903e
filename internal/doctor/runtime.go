// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"sigs.k8s.io/yaml"
)

// Programs by their names in /proc.
const (
	containerd = "containerd"
	crio       = "crio"
	kubelet    = "kubelet"
)

// processes are the processes of a program, in order.
func (h Host) processes(program string) ([]string, error) {
	if len(h.programs) > 0 {
		return h.programs[program], nil
	}
	entries, err := fs.ReadDir(h.Files, "proc")
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	if h.programs != nil {
		all = h.programs
	}
	for _, e := range entries {
		pid := e.Name()
		if pid[0] < '1' || pid[0] > '9' {
			continue
		}
		if name, err := h.read(path.Join("proc", pid, "comm")); err == nil { // else it has ended
			all[name] = append(all[name], pid)
		}
	}
	return all[program], nil
}

// flags are the values that a process was given on its command line for a flag, by any of
// its names: "--config FILE", "--config=FILE".
func (h Host) flags(pid string, names ...string) ([]string, error) {
	line, err := h.read(path.Join("proc", pid, "cmdline"))
	if err != nil {
		return nil, err
	}
	var values []string
	words := strings.Split(line, "\x00")
	for i, word := range words {
		name, value, given := strings.Cut(word, "=")
		switch {
		case !slices.Contains(names, name):
		case given:
			values = append(values, value)
		case i+1 < len(words):
			values = append(values, words[i+1])
		}
	}
	return values, nil
}

// config is the file that a process was told to read, or the usual one.
func (h Host) config(pid, usual string, flags ...string) (string, error) {
	given, err := h.flags(pid, flags...)
	if err != nil || len(given) == 0 {
		return usual, err
	}
	return strings.TrimPrefix(path.Clean(given[len(given)-1]), "/"), nil
}

// memlock wants the container runtime free to let containers lock memory, which RDMA
// does with all that it registers.
func memlock(h Host, r *report) {
	if len(h.rdmaNICs()) == 0 {
		return
	}
	pids, err := h.processes(containerd)
	if err == nil && len(pids) == 0 {
		pids, err = h.processes(crio)
	}
	if err != nil {
		r.unknown("", "/proc", err)
		return
	}
	for _, pid := range pids {
		file := path.Join("proc", pid, "limits")
		text, err := h.read(file)
		if err != nil {
			r.unknown("", "/"+file, err)
			return
		}
		for line := range strings.Lines(text) {
			rest, ok := strings.CutPrefix(line, "Max locked memory")
			if !ok {
				continue
			}
			limits := strings.Fields(rest)
			if len(limits) < 2 {
				r.unknown("", "/"+file, fmt.Errorf("limits of locked memory %q: want two", strings.TrimSpace(rest)))
				return
			}
			if limits[1] != "unlimited" {
				r.wrong("", "/"+file, limits[1]+" bytes", "unlimited", "LimitMEMLOCK=infinity in the runtime's systemd unit")
				return
			}
			r.ok("", "/"+file, limits[1])
			return
		}
	}
	r.unknown("", "/proc/*/comm", errors.New("no containerd or crio runs here"))
}

// runtime wants the socket by which plumbline gets the runtime's hooks, the runtime to
// take devices by CDI, and the kubelet to ask DRA drivers for them.
func runtime(h Host, r *report) {
	const socket = "run/nri/nri.sock"
	if there, err := h.exists(socket); err != nil {
		r.unknown("", "/"+socket, err)
	} else if !there {
		r.wrong("", "/"+socket, "is not there", "the runtime's socket of NRI", "containerd 2 has NRI on by default; in older ones set disable = false under io.containerd.nri.v1.nri")
	} else {
		r.ok("", "/"+socket, "is there")
	}
	h.containerdCDI(r)
	h.cdiFolders(r)
	h.kubeletDRA(r)
}

// containerdCDI wants CDI not switched off in the configuration that containerd was
// started with. What that imports is not read, and what it does not say is left to its
// release: CDI is on from containerd 2.
func (h Host) containerdCDI(r *report) {
	pids, err := h.processes(containerd)
	if err != nil {
		r.unknown("", "/proc", err)
		return
	}
	var judged []string // dockerd has a containerd of its own
	for _, pid := range pids {
		file, err := h.config(pid, "etc/containerd/config.toml", "--config", "-c")
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has ended
		case err != nil:
			r.unknown("", "/"+path.Join("proc", pid, "cmdline"), err)
		case !slices.Contains(judged, file):
			judged = append(judged, file)
			h.cdiIn(file, r)
		}
	}
}

func (h Host) cdiIn(file string, r *report) {
	text, err := h.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	off := ""
	if err == nil {
		off, err = withoutCDI(text)
	}
	switch {
	case err != nil:
		r.unknown("", "/"+file, err)
	case off != "":
		r.wrong("", "/"+file, "enable_cdi = false of "+off, "CDI, by which pods get devices",
			"take out enable_cdi = false: containerd 2 has CDI on by default; in older ones set enable_cdi = true; restart containerd")
	default:
		r.ok("", "/"+file, "does not turn CDI off")
	}
}

// withoutCDI is the plugin for which containerd's configuration turns CDI off; which one
// it is depends on the version of the file.
func withoutCDI(text string) (plugin string, err error) {
	var config struct {
		Plugins map[string]toml.Primitive `toml:"plugins"`
	}
	parsed, err := toml.Decode(text, &config)
	if err != nil {
		return "", noTOML(err)
	}
	for _, name := range []string{"io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"} {
		var settings struct {
			EnableCDI *bool `toml:"enable_cdi"`
		}
		if of, there := config.Plugins[name]; there {
			if err := parsed.PrimitiveDecode(of, &settings); err != nil {
				return "", fmt.Errorf("plugin %s: enable_cdi is neither true nor false", name)
			}
		}
		if settings.EnableCDI != nil && !*settings.EnableCDI {
			return name, nil
		}
	}
	return "", nil
}

// noTOML says in which line an error is, and not what stands there: passwords of
// registries may.
func noTOML(err error) error {
	if at := new(toml.ParseError); errors.As(err, at) {
		return fmt.Errorf("line %d is no TOML that containerd takes", at.Position.Line)
	}
	return errors.New("it is no TOML that containerd takes")
}

// cdiFolders wants room for the files of CDI: whoever writes the first one makes the
// folder, and cannot where there is something else.
func (h Host) cdiFolders(r *report) {
	for _, dir := range []string{"etc/cdi", "run/cdi"} {
		info, err := fs.Stat(h.Files, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			r.unknown("", "/"+dir, err)
		case !info.IsDir():
			r.wrong("", "/"+dir, "is no directory", "a directory, or nothing", "look at what it is, and move it away")
		default:
			r.ok("", "/"+dir, "is a directory")
		}
	}
}

// gateDRA is the kubelet's feature gate without which it prepares no claim.
const gateDRA = "DynamicResourceAllocation"

// kubeletDRA wants the kubelet's feature gate of DRA not switched off, neither on its
// command line, which has the last word, nor in its configuration.
func (h Host) kubeletDRA(r *report) {
	pids, err := h.processes(kubelet)
	if err != nil {
		r.unknown("", "/proc", err)
		return
	}
	const usual = "var/lib/kubelet/config.yaml"
	if len(pids) == 0 {
		h.gateOf(usual, r)
	}
	for _, pid := range pids {
		line := path.Join("proc", pid, "cmdline")
		gates, err := h.flags(pid, "--feature-gates")
		file := ""
		if err == nil {
			file, err = h.config(pid, usual, "--config")
		}
		on := gateIn(gates)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has ended
		case err != nil:
			r.unknown("", "/"+line, err)
		case on != nil:
			toldGate(*on, line, r)
		default:
			h.gateOf(file, r)
		}
	}
}

// gateOf reads the feature gate in a kubelet's configuration.
func (h Host) gateOf(file string, r *report) {
	text, err := h.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var config struct {
		FeatureGates map[string]bool `json:"featureGates"`
	}
	if err == nil {
		err = yaml.Unmarshal([]byte(text), &config)
	}
	if err != nil {
		r.unknown("", "/"+file, err)
		return
	}
	on, set := config.FeatureGates[gateDRA]
	toldGate(on || !set, file, r)
}

// gateIn is what lists of feature gates say of DRA's, the last one; nil where none does.
func gateIn(lists []string) *bool {
	var on *bool
	for _, gate := range strings.Split(strings.Join(lists, ","), ",") {
		if name, value, ok := strings.Cut(strings.TrimSpace(gate), "="); ok && name == gateDRA {
			if b, err := strconv.ParseBool(value); err == nil {
				on = &b
			}
		}
	}
	return on
}

func toldGate(on bool, file string, r *report) {
	if !on {
		r.wrong("", "/"+file, "feature gate "+gateDRA+"=false", "true, which it is by default from Kubernetes 1.34 on", "take the gate out, and restart the kubelet")
		return
	}
	r.ok("", "/"+file, "does not turn DRA off")
}
