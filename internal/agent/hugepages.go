// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/kube"
	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// podShown is how long Prepare waits for the API watch to show a claim's pod.
const podShown = 5 * time.Second

// refuseUnmirrored refuses a claim with huge pages whose pods do not have them in
// their limits too. The kubelet sets what a container may take to its limit, and
// to nothing without one: the pod would start, and fail at its first page.
func (a *agent) refuseUnmirrored(ctx context.Context, c driver.Claim) (driver.Claim, error) {
	given := hugepagesOf(c)
	if len(given) == 0 {
		return c, nil
	}
	for _, pod := range c.Pods {
		facts := a.pods.Wait(ctx, pod.UID, podShown)
		if facts == nil {
			return c, fmt.Errorf("it has huge pages, and the API server has not shown pod %s/%s within %s, whose limits must have them too: "+
				"want the API server reachable from the node", c.Namespace, pod.Name, podShown)
		}
		if err := mirrored(facts, c.ClaimRef, given); err != nil {
			return c, err
		}
	}
	return c, nil
}

// hugepagesOf is what a claim consumes, in bytes by the name of the standard
// resource.
func hugepagesOf(c driver.Claim) map[string]int64 {
	given := map[string]int64{}
	for _, device := range c.Devices {
		if device.AdminAccess {
			continue
		}
		for capacity, size := range slicecodec.HugepageCapacities() {
			if q := device.Consumed[capacity]; q.Sign() > 0 {
				given["hugepages-"+resource.NewQuantity(size, resource.BinarySI).String()] += q.Value()
			}
		}
	}
	return given
}

func mirrored(facts *kube.Pod, claim driver.ClaimRef, given map[string]int64) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		want := resource.NewQuantity(given[name], resource.BinarySI)
		if limit := facts.Limit([]string{claim.Name}, name); limit.Cmp(*want) < 0 {
			return fmt.Errorf("claim %s has %s of %s, and the containers of pod %s/%s that name it have a limit of %s: want resources.limits %s: %s, "+
				"without which the kubelet lets them take none of it", claim, want, name, facts.Namespace, facts.Name, limit.String(), name, want)
		}
	}
	return nil
}
