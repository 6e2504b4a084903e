// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// addLinks makes a thousand links beside lo and those of the node: 500 pairs.
const addLinks = `i=0
while [ $i -lt 500 ]; do ip link add many$i type veth peer name far$i || exit 1; i=$((i+1)); done`

const removeLinks = `for link in /sys/class/net/many*; do [ ! -e "$link" ] || ip link del "${link##*/}" || exit 1; done`

// Scans has programs look at many links on a node, by turns, and returns the median
// of each. Each program is called with the number of looks and prints the
// milliseconds of each; its first look warms it.
func Scans(ctx context.Context, shell func(ctx context.Context, script string, args ...string) (string, error), looks int, programs ...string) (medians []time.Duration, err error) {
	defer func() {
		_, gone := shell(context.WithoutCancel(ctx), removeLinks)
		err = errors.Join(err, gone)
	}()
	if _, err := shell(ctx, addLinks); err != nil {
		return nil, fmt.Errorf("make links: %w", err)
	}
	all := make([][]time.Duration, len(programs))
	for range Turns {
		for i, program := range programs {
			out, err := shell(ctx, program+" "+strconv.Itoa(looks+1))
			if err != nil {
				return nil, fmt.Errorf("look at links: %w", err)
			}
			took, err := parseLooks(out)
			if err != nil || len(took) != looks+1 {
				return nil, fmt.Errorf("look at links by %s: %d looks, want %d: %w", program, len(took), looks+1, err)
			}
			all[i] = append(all[i], took[1:]...)
		}
	}
	for _, took := range all {
		medians = append(medians, median(took))
	}
	return medians, nil
}

func parseLooks(out string) ([]time.Duration, error) {
	var took []time.Duration
	for field := range strings.FieldsSeq(out) {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return nil, err
		}
		took = append(took, time.Duration(n*float64(time.Millisecond)))
	}
	return took, nil
}
