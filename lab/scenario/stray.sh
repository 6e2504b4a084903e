# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# Puts the device files of a GPU that the container does not have into its /dev,
# or takes them away: $1 is a process of the container, $2 is add or remove.
dev=/proc/$1/root/dev
dri=$dev/dri
stray=$dri/card99
nvidia=$dev/nvidia99
if [ "$2" = remove ]; then
	rm -f "$stray" "$nvidia"
	exit 0
fi
for number in /sys/class/drm/card*/dev; do
	card=${number%/dev}
	card=${card##*/}
	[ -e "$dri/$card" ] && continue
	device=$(cat "$number")
	mknod "$stray" c "${device%:*}" "${device#*:}" || exit 1
	address=$(basename "$(readlink -f "/sys/dev/char/$device/device")")
	echo "mknod /dev/dri/card99 c ${device%:*} ${device#*:}, which is $card at $address"
	# Only where NVIDIA's kernel driver is, or what stands in for it.
	minor=$(awk '/^Device Minor:/ { print $3 }' "/proc/1/root/proc/driver/nvidia/gpus/$address/information" 2>/dev/null)
	[ -n "$minor" ] || exit 0
	mknod "$nvidia" c 195 "$minor" || exit 1
	echo "mknod /dev/nvidia99 c 195 $minor, the same GPU's"
	exit 0
done
echo "this node has no second GPU" >&2
exit 1
