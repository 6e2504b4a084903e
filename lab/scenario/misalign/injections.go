// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package misalign

import "plumbline.dev/plumbline/internal/verify/evaluate"

// injection makes the target pod misaligned and undoes it again. Its scripts get the
// container's id; the first says so with exit code 77 where this node has no such
// thing.
type injection struct {
	what       string
	begin, end string
	code       evaluate.Code
}

// notHere is the exit code of a script that the node cannot run.
const notHere = "77"

// prelude finds the container's group of the cpuset controller, and a process of
// it. The control groups of the lab's own pods are all that is written to.
const prelude = `root=/sys/fs/cgroup
[ -d $root/cpuset ] && root=$root/cpuset
group=$(find $root -type d -name "*$1*" | head -n 1)
[ -n "$group" ] || { echo "no control group of container $1" >&2; exit 1; }
pods=$(dirname "$(dirname "$group")")
read -r pid <"$group/cgroup.procs"
flag=/tmp/plumblab-proof
own=$(cat "$group/cpuset.cpus")
`

var injections = []injection{
	{
		what: "its CPUs are widened",
		// Again and again: the driver of the CPUs puts them back.
		begin: `wide=$(cat "$pods/cpuset.effective_cpus" 2>/dev/null || cat "$pods/cpuset.cpus.effective")
[ "$wide" != "$own" ] || exit 77
echo "$own" >$flag
( while [ -e $flag ]; do echo "$wide" >"$group/cpuset.cpus"; sleep 0.05; done ) >/dev/null 2>&1 &`,
		end:  `was=$(cat $flag); rm -f $flag; sleep 0.2; echo "$was" >"$group/cpuset.cpus"`,
		code: evaluate.CPUsWrong,
	},
	{
		what: "a process is let out of its CPUs",
		// Only where each controller has groups of its own (cgroup v1) is it a
		// process of the container's still.
		begin: `[ -e "$group/cgroup.clone_children" ] || exit 77
out=$pods/plumblab-proof
mkdir "$out"
cat "$pods/cpuset.cpus" >"$out/cpuset.cpus"
cat "$pods/cpuset.mems" >"$out/cpuset.mems"
echo "$pid" >"$out/cgroup.procs"`,
		// It starts others meanwhile.
		end: `out=$pods/plumblab-proof
i=0
until rmdir "$out" 2>/dev/null || [ $i -eq 50 ]; do
	while read -r stray; do echo "$stray" >"$group/cgroup.procs"; done <"$out/cgroup.procs"
	sleep 0.1
	i=$((i+1))
done
[ ! -e "$out" ]`,
		code: evaluate.ProcessOutside,
	},
	{
		what: "another interface has its NIC's name",
		begin: `ip link add plumbproof0 type veth peer name plumbproof1 || exit 77
ip link set plumbproof0 netns "$pid"
nsenter -t "$pid" -n sh -c 'ip link set net1 down; ip link set net1 name claimed0; ip link set plumbproof0 name net1'`,
		end:  `nsenter -t "$pid" -n sh -c 'ip link del net1; ip link set claimed0 name net1; ip link set net1 up'`,
		code: evaluate.DeviceMissing,
	},
}
