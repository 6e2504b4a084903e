// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package misalign

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// hostState lists what a serving agent leaves on a node: sockets, CDI files, records.
const hostState = `for dir in /var/lib/kubelet/plugins /var/lib/kubelet/plugins_registry /var/run/nri /var/run/cdi /var/lib/plumbline /run/plumbline; do
	find "$dir" 2>/dev/null
done
exit 0`

// openFiles lists what a process could write to: files and sockets with a name
// that it has open, and mounts of the host's that are not read-only.
const openFiles = `pid=$1
for fd in /proc/$pid/fd/*; do
	target=$(readlink "$fd") || continue
	case "$target" in
	socket:*) inode=${target#socket:[}; inode=${inode%]}
		awk -v inode="$inode" '$7 == inode && $8 != "" { print "socket " $8 }' /proc/$pid/net/unix ;;
	/dev/null|pipe:*|anon_inode:*) ;;
	*) flags=$(awk '$1 == "flags:" { print $2 }' "/proc/$pid/fdinfo/${fd##*/}")
		case "$flags" in *[12]) echo "file $target" ;; esac ;;
	esac
done 2>/dev/null
awk '$5 ~ "^/(host|var/lib/kubelet|var/run)" && $6 !~ /^ro/ { print "mount " $5 }' "/proc/$pid/mountinfo"
exit 0`

func (r *run) hostState(ctx context.Context) ([]string, error) {
	out, err := r.Shell(ctx, hostState)
	if err != nil {
		return nil, fmt.Errorf("read the node's state: %w", err)
	}
	lines := strings.Fields(out)
	slices.Sort(lines)
	return lines, nil
}

// writableFiles is what an agent has open by which it could change the host, but for its
// own socket, which an observer may have.
func (r *run) writableFiles(ctx context.Context, a agent) (wrong []string, err error) {
	out, err := r.Shell(ctx, openFiles, a.pid)
	if err != nil {
		return nil, fmt.Errorf("read what the %s agent has open: %w", a.Name, err)
	}
	return notOwnSocket(out), nil
}

func notOwnSocket(out string) []string {
	var wrong []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" && line != "socket /run/plumbline/agent.sock" {
			wrong = append(wrong, line)
		}
	}
	return wrong
}
