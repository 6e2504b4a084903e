# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints where a container's devices, CPUs and memory are, from the kernel's
# own files. $1 is the container's root, "" inside it, /proc/<pid>/root from
# the node; $2 is the process to ask, "self" inside.
root=$1
process=$2
awk '/^Cpus_allowed_list:/ { print "cpus", $2 } /^Mems_allowed_list:/ { print "mems", $2 }' "/proc/$process/status"
for node in /sys/devices/system/node/node[0-9]*; do
	echo "node ${node##*node} $(cat "$node/cpulist")"
done
# The link's own text holds the device's path; resolving it through
# /proc/<pid>/root would end in the reader's file system.
for interface in "$root"/sys/class/net/*; do
	link=$(readlink "$interface") || continue
	case $link in
	*/pci*) ;;
	*) continue ;;
	esac
	device=/sys/${link#../../}
	device=${device%/net/*}
	echo "nic ${interface##*/} $device $(cat "$device/numa_node")"
done
for card in "$root"/dev/dri/card[0-9]*; do
	[ -c "$card" ] || continue
	number=$((0x$(stat -c %t "$card"))):$((0x$(stat -c %T "$card")))
	device=$(readlink -f "/sys/dev/char/$number/device")
	echo "gpu ${card#"$root"} $number $device $(cat "$device/numa_node")"
done
