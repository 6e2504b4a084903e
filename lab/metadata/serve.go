// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"plumbline.dev/plumbline/internal/machine/facts"
	"plumbline.dev/plumbline/lab/vm/qemu"
)

const (
	root   = "/computeMetadata/v1"
	header = "Metadata-Flavor"
	flavor = "Google"
)

// Serve answers on l until ctx ends as the metadata server of a guest with that
// hardware.
func Serve(ctx context.Context, l net.Listener, f *facts.Facts) error {
	server := &http.Server{Handler: handler(instance(f, qemu.MAC)), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metadata: %w", err)
	}
	return nil
}

// handler refuses a request without the header Metadata-Flavor, as GCE's
// server does: a page in a browser cannot.
func handler(all entry) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(header, flavor)
		path, below := strings.CutPrefix(r.URL.Path, root)
		e, found := all.find(path)
		switch {
		case r.Method != http.MethodGet:
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
		case r.URL.Path == "/":
			_, _ = io.WriteString(w, "computeMetadata/\n")
		case !below || !found:
			http.NotFound(w, r)
		case r.Header.Get(header) != flavor:
			http.Error(w, "missing header "+header+": "+flavor, http.StatusForbidden)
		case r.URL.Query().Get("recursive") == "true" && r.URL.Query().Get("alt") != "text", r.URL.Query().Get("alt") == "json":
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(e)
		default:
			w.Header().Set("Content-Type", "application/text")
			_, _ = io.WriteString(w, e.text())
		}
	})
}
