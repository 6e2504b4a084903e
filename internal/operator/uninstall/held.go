// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plumbline.dev/plumbline/internal/plural"
)

// pageSize is how many objects are asked for at a time.
const pageSize = 250

// printed is how many claims are told of by name.
const printed = 20

// ErrHeld says that pods hold devices.
var ErrHeld = errors.New("nothing was uninstalled")

// RefuseHeld returns ErrHeld while pods hold devices of the drivers, and tells which:
// without an agent nobody would undo their claims when they end, and the kubelet would
// wait for one for ever.
func RefuseHeld(ctx context.Context, c client.Client, drivers []string, out io.Writer) error {
	held := 0
	for from := ""; ; {
		var page resourceapi.ResourceClaimList
		if err := c.List(ctx, &page, client.Limit(pageSize), client.Continue(from)); err != nil {
			return fmt.Errorf("list ResourceClaims: %w", err)
		}
		for i := range page.Items {
			devices := devicesOf(&page.Items[i], drivers)
			if len(devices) == 0 || len(page.Items[i].Status.ReservedFor) == 0 {
				continue
			}
			if held++; held <= printed {
				fmt.Fprintf(out, "claim %s/%s of %s: %s\n", page.Items[i].Namespace, page.Items[i].Name,
					strings.Join(consumers(&page.Items[i]), ", "), strings.Join(devices, ", "))
			}
		}
		if from = page.Continue; from == "" {
			break
		}
	}
	if held > printed {
		fmt.Fprintf(out, "and %d more\n", held-printed)
	}
	if held == 0 {
		_, err := fmt.Fprintln(out, "no pod holds a device")
		return err
	}
	return fmt.Errorf("%w: %s of pods %s devices of %s: end the pods first", ErrHeld,
		plural.Count(held, "claim", "claims"), map[bool]string{true: "holds", false: "hold"}[held == 1], strings.Join(drivers, ", "))
}

// devicesOf are the allocated devices of the drivers, as DRIVER POOL/DEVICE.
func devicesOf(claim *resourceapi.ResourceClaim, drivers []string) []string {
	if claim.Status.Allocation == nil {
		return nil
	}
	var devices []string
	for _, result := range claim.Status.Allocation.Devices.Results {
		if slices.Contains(drivers, result.Driver) {
			devices = append(devices, result.Driver+" "+result.Pool+"/"+result.Device)
		}
	}
	return devices
}

func consumers(claim *resourceapi.ResourceClaim) []string {
	var names []string
	for _, c := range claim.Status.ReservedFor {
		names = append(names, strings.TrimSuffix(c.Resource, "s")+" "+c.Name)
	}
	return names
}
