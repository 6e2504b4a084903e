# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# Everything that must be after a pod as it was before: the NICs in the node's
# own namespace, network namespaces, and files that plumbline keeps. $NICS is a
# pattern of the NICs' names or nothing for those on a PCI bus.
for interface in /sys/class/net/*; do
	name=${interface##*/}
	link=$(readlink "$interface")
	place=${link%/net/*}
	place=${place##*/}
	if [ -n "$NICS" ]; then
		case $name in $NICS) place=$name ;; *) continue ;; esac
	else
		case $link in */pci*) ;; *) continue ;; esac
		[ "$name" != mgmt0 ] || continue
	fi
	rdma=-
	for candidate in /sys/class/infiniband/*; do
		[ "$(cat "$candidate/parent" 2>/dev/null)" = "$name" ] && rdma=${candidate##*/}
	done
	addresses=$(ip -o addr show dev "$name" scope global | awk '{ printf "%s%s", sep, $4; sep = "," }')
	routes=$(ip route show table all dev "$name" | grep -v -e '^local' -e '^broadcast' -e linkdown | sort | tr -s ' \n' ' ;')
	echo "nic $place $name mtu=$(cat "$interface/mtu") mac=$(cat "$interface/address") flags=$(cat "$interface/flags")" \
		"addresses=${addresses:--} rdma=$rdma routes=${routes:--}"
done
# A containerd that is killed between making a namespace and writing down whose it is
# leaves it for ever (internal/cri/server/sandbox_run.go, NewNetNS to the Update after
# it). Nobody has used that one: it has the loopback interface of its making only.
for namespace in /run/netns/*; do
	[ -e "$namespace" ] || continue
	what=namespace
	if [ -n "$(find "$namespace" -mmin +0)" ]; then
		links=$(nsenter --net="$namespace" ip -o link show 2>/dev/null)
		[ -n "$links" ] && ! echo "$links" | grep -qv '^1: lo: <LOOPBACK> ' && what=unused
	fi
	echo "$what ${namespace##*/}"
done
# Lock files stay by design: one that is unlinked while somebody waits for it
# locks nothing. An agent's own marks are called after its pod: those are counted.
echo "file marks of agents: $(ls /var/lib/plumbline/agents 2>/dev/null | grep -c .)"
find /var/lib/plumbline /var/run/cdi -type f ! -name '*.lock' ! -name '.*' ! -path '*/agents/*' 2>/dev/null | sed 's/^/file /'
agent=$(find_agent)
[ -n "$agent" ] && echo "agent $agent $(ls -l "/proc/$agent/fd" 2>/dev/null | grep -c 'net:\[\|/netns/')"
exit 0
