# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# Puts the device file of a GPU that the container does not have into its /dev,
# or takes it away: $1 is a process of the container, $2 is add or remove.
dri=/proc/$1/root/dev/dri
stray=$dri/card99
if [ "$2" = remove ]; then
	rm -f "$stray"
	exit 0
fi
for number in /sys/class/drm/card*/dev; do
	card=${number%/dev}
	card=${card##*/}
	[ -e "$dri/$card" ] && continue
	device=$(cat "$number")
	mknod "$stray" c "${device%:*}" "${device#*:}" || exit 1
	echo "mknod /dev/dri/card99 c ${device%:*} ${device#*:}, which is $card at $(basename "$(readlink -f "/sys/dev/char/$device/device")")"
	exit 0
done
echo "this node has no second GPU" >&2
exit 1
