# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# What the scripts beside this one share. Sourced, never run.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# need NAME HOW says how to get a missing program, and stops.
need() {
	command -v "$1" >/dev/null && return
	echo "$1 is missing: $2" >&2
	exit 1
}

need go "install Go 1.26 or newer from your distribution or go.dev"

# STEPS is the file to which every step adds how long it took, also one of a script
# that a step runs.
if [ -z "${STEPS:-}" ]; then
	export STEPS=$PWD/out/steps.txt
	mkdir -p out
	: >"$STEPS"
fi

# took NAME SECONDS remembers a step.
took() { printf '%6ds  %s\n' "$2" "$1" >>"$STEPS"; }

# within SECONDS fails when the script has run for longer, and says on what.
within() {
	local all=$SECONDS
	[ "$all" -gt "$1" ] || return 0
	{
		echo "it took ${all}s, $((all - $1))s more than the $1s it may; its longest steps:"
		sort -rn "$STEPS" | head -n 8
	} >&2
	return 1
}

# step NAME COMMAND... runs a command under a heading, says how long it took, and
# passes on how it ended. The command runs in a shell of its own under -e, also
# where the caller tests the outcome.
step() {
	local name=$1 began=$SECONDS rc=0
	shift
	printf '\n== %s\n' "$name"
	set +e
	(set -e; "$@")
	rc=$?
	set -e
	if [ $rc -eq 0 ]; then
		printf -- '-- %s: %ds\n' "$name" $((SECONDS - began))
		took "$name" $((SECONDS - began))
	else
		printf -- '-- %s: FAIL after %ds\n' "$name" $((SECONDS - began))
		took "$name: FAIL" $((SECONDS - began))
	fi
	return $rc
}

# failed lists the steps that failed, the last thing that a long log should say.
failed() { grep -F ': FAIL' "$STEPS" || true; }

# tidy fails where go.mod or go.sum of a module is not what its packages import.
tidy() {
	go mod tidy -diff
	(cd lab && go mod tidy -diff)
}

# tools PACKAGE builds a pinned developer tool of go.tools.mod into bin/tools.
tools() {
	GOBIN=$PWD/bin/tools go install -modfile=go.tools.mod "$1"
}
