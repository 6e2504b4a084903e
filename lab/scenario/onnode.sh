# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# Finds the first process of a container, from the node's process namespace:
# $1 is the container's id, as in the pod's status.
for process in /proc/[0-9]*; do
	if grep -q "$1" "$process/cgroup" 2>/dev/null; then
		echo "${process#/proc/}"
		exit 0
	fi
done
echo "no process of container $1 on this node" >&2
exit 1
