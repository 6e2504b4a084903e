# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# One line for each PCI interface in the reader's namespace: everything that a
# pod must not change for good.
for interface in /sys/class/net/*; do
	link=$(readlink "$interface")
	case $link in
	*/pci*) ;;
	*) continue ;;
	esac
	device=${link%/net/*}
	name=${interface##*/}
	rdma=-
	for candidate in /sys/class/infiniband/*; do
		[ "$(cat "$candidate/parent" 2>/dev/null)" = "$name" ] && rdma=${candidate##*/}
	done
	addresses=$(ip -o addr show dev "$name" scope global | awk '{ printf "%s%s", sep, $4; sep = "," }')
	routes=$(ip route show table all dev "$name" | grep -v -e '^local' -e '^broadcast' | sort | tr -s ' \n' ' ;')
	echo "${device##*/} $name mtu=$(cat "$interface/mtu") mac=$(cat "$interface/address") flags=$(cat "$interface/flags")" \
		"addresses=${addresses:--} rdma=$rdma routes=${routes:--}"
done
