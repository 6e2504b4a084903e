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
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hosts "plumbline.dev/plumbline/api/hosts/v1alpha1"
	nets "plumbline.dev/plumbline/api/net/v1alpha1"
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
	if err := errors.Join(refusePolicies(ctx, c), refusePools(ctx, c)); err != nil {
		return err
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

// refusePolicies returns ErrHeld while agents keep hosts as HostPolicies want them: when
// these go with their kind, no agent is left to put back what was there.
func refusePolicies(ctx context.Context, c client.Client) error {
	var policies hosts.HostPolicyList
	if err := c.List(ctx, &policies); err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("list HostPolicies: %w", err)
	}
	var names []string
	for i := range policies.Items {
		names = append(names, policies.Items[i].Name)
	}
	if len(names) > 0 {
		return fmt.Errorf("%w: there are HostPolicies (%s): delete them first, so that agents put back what they set", ErrHeld, bounded(names))
	}
	for from := ""; ; {
		var page hosts.HostReportList
		if err := c.List(ctx, &page, client.Limit(pageSize), client.Continue(from)); err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("list HostReports: %w", err)
		}
		for i := range page.Items {
			if len(page.Items[i].Report.Policies) > 0 {
				names = append(names, page.Items[i].Name)
			}
		}
		if from = page.Continue; from == "" {
			break
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("%w: agents have not put back yet what HostPolicies set on %s: wait a minute, or see their HostReports", ErrHeld, bounded(names))
	}
	return nil
}

// refusePools returns ErrHeld while there are pools of addresses: nobody would be left to give
// back their blocks, and these would keep their kind for ever.
func refusePools(ctx context.Context, c client.Client) error {
	var pools nets.NetworkAddressPoolList
	if err := c.List(ctx, &pools); err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("list NetworkAddressPools: %w", err)
	}
	if len(pools.Items) == 0 {
		return nil
	}
	var names []string
	for i := range pools.Items {
		names = append(names, pools.Items[i].Name)
	}
	return fmt.Errorf("%w: there are NetworkAddressPools (%s): delete them first, and wait until they have gone", ErrHeld, bounded(names))
}

// bounded is a list of names that is not longer than people read.
func bounded(names []string) string {
	if more := len(names) - printed; more > 0 {
		return strings.Join(names[:printed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
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
