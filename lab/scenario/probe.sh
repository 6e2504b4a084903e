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
# gpu prints a file of a device that hangs from the PCI function $2.
gpu() {
	echo "gpu ${1#"$root"} $(number "$1") $2 $(cat "$2/numa_node")"
}
number() {
	echo "$((0x$(stat -c %t "$1"))):$((0x$(stat -c %T "$1")))"
}
for card in "$root"/dev/dri/card[0-9]*; do
	[ -c "$card" ] || continue
	gpu "$card" "$(readlink -f "/sys/dev/char/$(number "$card")/device")"
done
# NVIDIA's character devices are in no sysfs: their kernel driver tells by the minor number
# which PCI function is whose, in /proc, which a container has of its own and the node's first
# process shows. What nothing tells of is printed without a place.
nvidia=195
for file in "$root"/dev/nvidia[0-9]*; do
	[ -c "$file" ] || continue
	address=
	for one in "$root"/proc/driver/nvidia/gpus/* /proc/1/root/proc/driver/nvidia/gpus/*; do
		minor=$(awk '/^Device Minor:/ { print $3 }' "$one/information" 2>/dev/null)
		if [ "$nvidia:$minor" = "$(number "$file")" ]; then
			address=${one##*/}
		fi
	done
	if [ -z "$address" ]; then
		echo "gpu ${file#"$root"} $(number "$file")"
		continue
	fi
	gpu "$file" "$(readlink -f "/sys/bus/pci/devices/$address")"
done
