// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/agent/claims"
	"plumbline.dev/plumbline/internal/driver"
	"plumbline.dev/plumbline/internal/driver/netdev"
	"plumbline.dev/plumbline/internal/model"
	"plumbline.dev/plumbline/internal/model/slicecodec"
	"plumbline.dev/plumbline/internal/verify/expect"
)

// serveNCCL adds to claims of NICs that ask for NCCL's environment which GPUs they have:
// other drivers' devices, which the driver of NICs knows nothing of.
func (a *agent) serveNCCL(p *claims.Preparer) {
	if p.Name() != slicecodec.DriverNet {
		return
	}
	resolve := p.Resolve
	p.Resolve = func(ctx context.Context, c driver.Claim) (driver.Claim, error) {
		c, err := resolve(ctx, c)
		if err != nil || c.Object == nil || !netdev.AsksForNCCL(c) {
			return c, err
		}
		published, err := a.publishedHere(ctx)
		if err != nil {
			// NCCL finds the GPUs by itself; only the file would have named them.
			klog.FromContext(ctx).Info("the topology file does not name the claim's GPUs", "claim", c.String(), "reason", err.Error())
			return c, nil
		}
		c.GPUs = gpusOf(c.Object, published)
		return c, nil
	}
}

// gpusOf are the PCI addresses of a claim's GPUs, each once, as far as slices say them.
func gpusOf(c *resourceapi.ResourceClaim, published []resourceapi.ResourceSlice) []model.PCIAddress {
	if c.Status.Allocation == nil {
		return nil
	}
	var gpus []model.PCIAddress
	seen := map[model.PCIAddress]bool{}
	for _, d := range expect.ClaimOf(c, expect.PublishedIn(published)).Devices {
		if d.Kind == expect.GPU && d.PCI != nil && !seen[*d.PCI] {
			seen[*d.PCI] = true
			gpus = append(gpus, *d.PCI)
		}
	}
	return gpus
}
