// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugins

import (
	"encoding/json"
	"net/http"

	"k8s.io/klog/v2"
)

// Path is where the agent's socket answers with a report in JSON.
const Path = "/device-plugins"

// ServeHTTP answers with a look at this moment.
func (k Kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	report, err := k.Look(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(report); err != nil {
		klog.FromContext(r.Context()).V(2).Info("report not sent", "reason", err.Error())
	}
}
