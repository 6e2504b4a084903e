// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package harness

// FindProcess defines two functions.
//
// find_process NAME [OPTION] prints the id of a process that the kernel knows by a name
// (/proc/PID/comm, 15 letters) and that was started with an argument beginning with the
// option; it fails where there is none.
//
// find_agent is the serving or observing agent. Its probes and commands such as verify
// are short processes of the same name, with a command in place of options.
const FindProcess = `find_process() {
	for process in /proc/[0-9]*; do
		read -r comm <"$process/comm" && [ "$comm" = "$1" ] || continue
		[ -z "$2" ] || tr '\0' '\n' <"$process/cmdline" | grep -q "^$2" || continue
		echo "${process#/proc/}"
		return 0
	done 2>/dev/null
	return 1
}
find_agent() { find_process plumbline-agent --node-name=; }
`
