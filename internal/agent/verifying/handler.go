// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package verifying

import (
	"encoding/json"
	"errors"
	"net/http"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/verify/expect"
)

// Path is where the agent's socket answers with a report in JSON; its parameters
// namespace and pod choose among the node's pods.
const Path = "/verify"

var errNotScanned = errors.New("the machine was not scanned yet")

// Handler answers with a look at this moment.
func (v *Verifier) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		namespace, pod := r.URL.Query().Get("namespace"), r.URL.Query().Get("pod")
		report, err := v.now(r.Context(), func(p expect.Pod) bool {
			return (namespace == "" || p.Namespace == namespace) && (pod == "" || p.Name == pod)
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(report); err != nil {
			klog.FromContext(r.Context()).V(2).Info("report not sent", "reason", err.Error())
		}
	})
}
