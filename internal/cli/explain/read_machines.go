// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
	"plumbline.dev/plumbline/internal/machine"
	"plumbline.dev/plumbline/internal/nodeslices"
)

// maxMachines is the most nodes of one machine.
const maxMachines = 5000

// machineSlices are what nodes with some hardware would publish. "NAME=COUNT"
// makes nodes NAME-0, NAME-1 and so on.
func machineSlices(ctx context.Context, machines []string, errOut io.Writer) ([]*resourceapi.ResourceSlice, error) {
	var all []*resourceapi.ResourceSlice
	for _, arg := range machines {
		name, count := arg, 0
		if at := strings.LastIndexByte(arg, '='); at >= 0 {
			n, err := strconv.Atoi(arg[at+1:])
			if err != nil || n < 1 || n > maxMachines {
				return nil, cmdutil.Usagef("--machine %s: want a count from 1 to %d behind the =", arg, maxMachines)
			}
			name, count = arg[:at], n
		}
		file, err := machine.Open(name)
		if err != nil {
			return nil, err
		}
		node := nodeslices.NodeName(file.Name)
		published, problems, err := nodeslices.OfFile(ctx, file, nodeslices.Options{})
		if err != nil {
			return nil, err
		}
		for _, p := range problems {
			fmt.Fprintln(errOut, "left out:", p)
		}
		if count == 0 {
			all = append(all, pointers(published)...)
			continue
		}
		for i := range count {
			all = append(all, onNode(published, node, fmt.Sprintf("%s-%d", node, i))...)
		}
	}
	return all, nil
}

func pointers(published []resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	all := make([]*resourceapi.ResourceSlice, len(published))
	for i := range published {
		all[i] = &published[i]
	}
	return all
}

// onNode copies the slices of a node for another one like it. Their devices are
// shared, and never changed.
func onNode(published []resourceapi.ResourceSlice, old, node string) []*resourceapi.ResourceSlice {
	all := make([]*resourceapi.ResourceSlice, len(published))
	for i := range published {
		s := published[i]
		s.Name = node + strings.TrimPrefix(s.Name, old)
		s.Spec.NodeName, s.Spec.Pool.Name = &node, node
		all[i] = &s
	}
	return all
}
