# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# Loads the kernel modules named, each after what it needs: the last is the driver. When it
# is told to end it unloads those that it has loaded.
set -eu
ready=/run/mellanox/drivers/.driver-ready
loaded=

has() { test -e "/sys/module/$1"; }

unload() {
	rm -f "$ready"
	for module in $loaded; do
		echo "unload $module"
		rmmod "$module"
	done
	exit 0
}
trap unload TERM

for driver; do :; done
# The kernel's own gives way, and what one left that was killed.
if has "$driver"; then
	rmmod "$driver"
fi
for module; do
	has "$module" && continue
	echo "load $module"
	insmod "/drivers/$module.ko"
	loaded="$module $loaded"
done
: >"$ready"
while :; do
	# A trap has to wait for a command, and not for wait.
	sleep 3600 &
	wait $! || :
done
