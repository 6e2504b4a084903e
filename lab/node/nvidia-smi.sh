#!/bin/sh
# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# Stands in for nvidia-smi where NVIDIA's DRA driver calls it: to see that it is there,
# and to set time-slices and compute modes, which no stand-in of a GPU has. It writes
# down what it was asked to set.
case "$*" in
--version)
	echo "NVIDIA-SMI version  : none, plumbline's stand-in" ;;
"compute-policy -i GPU-"*" --set-timeslice "[0-3] | "-i GPU-"*" -c DEFAULT" | "-i GPU-"*" -c EXCLUSIVE_PROCESS")
	echo "$*" >>"${0%/bin/*}/etc/nvml-standin/settings" ;;
*)
	echo "nvidia-smi: this stand-in knows no: $*" >&2
	exit 2 ;;
esac
