# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# What runs in each pod, and which NICs are there with it. $@ are pods' UIDs.
# "up" says that the agent serves the kubelet and is connected to the runtime:
# both are sockets that the kernel lists (/proc/net/unix, flags and state).
registered=0
connected=0
while read -r _ _ _ flags _ state _ path; do
	case $path in
	*/plugins_registry/*dra.net*) [ "$flags" = 00010000 ] && registered=1 ;;
	*/nri.sock) [ "$state" = 03 ] && connected=1 ;;
	esac
done </proc/net/unix
[ $registered$connected = 11 ] && echo up
nics_of() {
	nics=-
	for interface in "/proc/$1/root/sys/class/net/"*; do
		link=$(readlink "$interface")
		case $link in
		*/pci*) nics=$nics,${link%/net/*} ;;
		*/net/$NICNAME) nics=$nics,${link##*/} ;;
		esac
	done
	echo "$nics"
}
for uid; do
	for procs in $CGROUP/kubepods/*/pod"$uid"/*/cgroup.procs $CGROUP/kubepods/pod"$uid"/*/cgroup.procs; do
		[ -e "$procs" ] || continue
		while read -r pid; do
			read -r comm <"/proc/$pid/comm" || continue
			case $comm in
			tail) what=container ;;
			sleep) what=sandbox ;;
			*) continue ;;
			esac 2>/dev/null
			nics=$(nics_of "$pid")
			# A link that is renamed between its listing and its reading is
			# missed: a second look finds it.
			[ "$nics" != - ] || nics=$(nics_of "$pid")
			# What was asked may have ended meanwhile: then it says nothing.
			[ -e "/proc/$pid/ns/net" ] && echo "process $uid $what $pid $nics"
		done <"$procs" 2>/dev/null
	done
done
exit 0
