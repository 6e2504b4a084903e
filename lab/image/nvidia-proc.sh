# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# bash reads this before it starts NVIDIA's DRA driver (BASH_ENV). A container has a /proc
# of its own, in which NVIDIA's kernel driver would show itself: what stands in for it can
# do so only here.
unset BASH_ENV
for one in driver devices; do
	mount --bind "/driver-root/proc/$one" "/proc/$one" || exit
done
