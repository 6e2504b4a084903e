// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// refuseSlices returns ErrRival while the node's devices of the driver are
// published by a server that is none of ours. The kubelet removes what a driver
// that has left had published after half a minute
// (pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go, wipeResourceSlices), so slices
// that stay are those of a server that runs.
func (n Node) refuseSlices(ctx context.Context, driver string) error {
	ctx, cancel := context.WithTimeout(ctx, answerAtMost)
	defer cancel()
	list, err := n.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + driver + "," + resourceapi.ResourceSliceSelectorNodeName + "=" + n.Name,
	})
	if err != nil {
		// An agent starts without the API server too, and the sockets were checked.
		klog.FromContext(ctx).Info("not known whether another server publishes devices", "driver", driver, "reason", err.Error())
		return nil
	}
	for _, s := range list.Items {
		var by []string
		for _, f := range s.ManagedFields {
			by = append(by, f.Manager)
		}
		if len(by) > 0 && !slices.Contains(by, n.Manager) {
			return fmt.Errorf("%w: ResourceSlice %s of %s was written by %s, and what two publish is given away twice: "+
				"remove the other driver; the kubelet removes its slices within a minute", ErrRival, s.Name, driver, strings.Join(by, ", "))
		}
	}
	return nil
}
