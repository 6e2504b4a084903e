#!/bin/bash
# Copyright The plumbline authors
# SPDX-License-Identifier: Apache-2.0
#
# Lets the launcher in, by a server that PyTorch's images lack.
set -euo pipefail

if ! [ -x /usr/sbin/sshd ]; then
	apt-get update
	apt-get install -y --no-install-recommends openssh-server
fi
mkdir -p /run/sshd
exec /usr/sbin/sshd -De
