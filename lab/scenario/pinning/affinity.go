// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package pinning

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// Scripts on the node. A pod's processes are those whose control group has its
// UID; the sandbox's own is left out by its name.
const (
	findNodes = `for node in /sys/devices/system/node/node[0-9]*; do echo "${node##*node} $(cat "$node/cpulist")"; done`

	// readAffinity finds the pod's processes by one grep: one for each process would take
	// an emulated node seconds.
	readAffinity = `for group in $(grep -ls "pod$1" /proc/[0-9]*/cgroup); do
	process=${group%/cgroup}
	read -r comm <"$process/comm" || continue
	[ "$comm" = "$2" ] || continue
	echo "${process#/proc/}" $(sed -n 's/^[CM][a-z]*s_allowed_list:[[:space:]]*//p' "$process/status")
done 2>/dev/null
exit 0`

	// sample writes the node's uptime and the processor on which each busy
	// process last ran, as often as such a process gets to run (see busyLoop).
	sample = `rm -f /tmp/plumblab-cpus; : >/tmp/plumblab-cpus.on
( while [ -e /tmp/plumblab-cpus.on ]; do
	read -r uptime _ </proc/uptime
	for pid; do
		read -r stat <"/proc/$pid/stat" || continue
		set -- ${stat##*) }
		echo "$uptime ${37}"
	done
	set -- $PIDS
	sleep 0.1
done >>/tmp/plumblab-cpus 2>/dev/null ) >/dev/null 2>&1 &`

	endSample = `rm -f /tmp/plumblab-cpus.on; cat /tmp/plumblab-cpus 2>/dev/null; rm -f /tmp/plumblab-cpus; exit 0`

	killProcess = `for process in /proc/[0-9]*; do
	read -r comm <"$process/comm" && [ "$comm" = "$1" ] && kill -9 "${process#/proc/}" && echo killed
done 2>/dev/null
exit 0`

	uptime = `read -r uptime _ </proc/uptime; echo "$uptime"`
)

// affinity is where a pod's processes may run, all of them.
type affinity struct {
	PIDs       []string
	CPUs, Mems cpuset.CPUSet
}

var errGone = errors.New("the pod has no process on the node")

func ignoreGone(err error) error {
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

func (r *run) readNodes(ctx context.Context) (map[int]cpuset.CPUSet, error) {
	out, err := r.Shell(ctx, findNodes)
	if err != nil {
		return nil, fmt.Errorf("read the node's NUMA nodes: %w", err)
	}
	nodes := map[int]cpuset.CPUSet{}
	for line := range strings.Lines(out) {
		id, list, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(id)
		if err != nil {
			return nil, fmt.Errorf("read the node's NUMA nodes: line %q: %w", line, err)
		}
		if nodes[n], err = cpuset.Parse(list); err != nil {
			return nil, fmt.Errorf("read the node's NUMA nodes: line %q: %w", line, err)
		}
	}
	if len(nodes) < 2 || nodes[0].Size() < 2 || nodes[1].Size() < 2 {
		return nil, fmt.Errorf("the node has %d NUMA nodes with %v: want two CPUs on each of two", len(nodes), nodes)
	}
	return nodes, nil
}

// affinity reads where a pod's processes may run, from the node.
func (r *run) affinity(ctx context.Context, pod string) (affinity, error) {
	uid, err := r.uid(ctx, pod)
	if err != nil {
		return affinity{}, err
	}
	out, err := r.Shell(ctx, readAffinity, uid, shellName)
	if err != nil {
		return affinity{}, fmt.Errorf("look for pod %s on the node: %w", pod, err)
	}
	p, err := parseAffinity(out)
	if err == nil && len(p.PIDs) == 0 {
		err = errGone
	}
	if err != nil {
		return p, fmt.Errorf("pod %s: %w", pod, err)
	}
	return p, nil
}

func parseAffinity(out string) (affinity, error) {
	var p affinity
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue // the process ended meanwhile
		}
		cpus, err := cpuset.Parse(fields[1])
		if err != nil {
			return p, fmt.Errorf("read line %q: %w", line, err)
		}
		mems, err := cpuset.Parse(fields[2])
		if err != nil {
			return p, fmt.Errorf("read line %q: %w", line, err)
		}
		p.PIDs, p.CPUs, p.Mems = append(p.PIDs, fields[0]), p.CPUs.Union(cpus), p.Mems.Union(mems)
	}
	return p, nil
}

// now is the node's uptime.
func (r *run) now(ctx context.Context) (float64, error) {
	out, err := r.Shell(ctx, uptime)
	if err != nil {
		return 0, fmt.Errorf("read the node's clock: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(out), 64)
}

// startSampling watches on which processors processes run.
func (r *run) startSampling(ctx context.Context, pids ...string) error {
	_, err := r.Shell(ctx, fmt.Sprintf("PIDS='%s'\n%s", strings.Join(pids, " "), sample), pids...)
	return err
}

func (r *run) stopSampling(ctx context.Context) error {
	_, err := r.Shell(ctx, endSample)
	return err
}

// cpuSample is a process on a processor at a time.
type cpuSample struct {
	at  float64
	cpu int
}

func (r *run) samples(ctx context.Context) ([]cpuSample, error) {
	out, err := r.Shell(ctx, endSample)
	if err != nil {
		return nil, fmt.Errorf("read the samples: %w", err)
	}
	return parseSamples(out)
}

func parseSamples(out string) ([]cpuSample, error) {
	var all []cpuSample
	for line := range strings.Lines(out) {
		var s cpuSample
		if _, err := fmt.Sscanf(line, "%f %d", &s.at, &s.cpu); err != nil {
			return nil, fmt.Errorf("read sample %q: %w", line, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// violations are the samples in which somebody ran on CPUs that were exclusive.
func violations(all []cpuSample, held []interval) []cpuSample {
	var bad []cpuSample
	for _, s := range all {
		for _, h := range held {
			if s.at >= h.begin && s.at <= h.end && h.cpus.Contains(s.cpu) {
				bad = append(bad, s)
			}
		}
	}
	return bad
}
