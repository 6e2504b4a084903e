// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plumbline.dev/plumbline/lab/cache"
	"plumbline.dev/plumbline/lab/debian"
	"plumbline.dev/plumbline/lab/progress"
)

// Where the newer parts cannot be fetched, the error is one that tests skip by, with the
// reason; one that was interrupted is not.
func TestRDMAGuestThatCannotBeHad(t *testing.T) {
	c, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, tool := range []string{"apt-get", "apt-cache", "apt-config", "dpkg-deb"} {
		if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\necho 'no mirror answers' >&2\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	said := progress.New(io.Discard, false, time.Now)
	archive, err := debian.Open(c, said)
	if err != nil {
		t.Skip(err)
	}
	b := &ArtifactBuilder{cache: c, progress: said, archive: archive}
	if err := b.fetchRDMA(t.Context(), GuestRDMA, &Artifacts{}); !errors.Is(err, ErrNoRDMA) || !strings.Contains(err.Error(), "no mirror answers") {
		t.Errorf("error %v, want %v with the reason", err, ErrNoRDMA)
	}
	if err := b.fetchRDMA(t.Context(), GuestUsual, &Artifacts{}); err != nil {
		t.Errorf("a guest that takes none of it: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.fetchRDMA(ended, GuestRDMA, &Artifacts{}); err == nil || errors.Is(err, ErrNoRDMA) {
		t.Errorf("interrupted: %v, want another error", err)
	}
}
