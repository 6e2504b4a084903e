// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"k8s.io/klog/v2"

	"plumbline.dev/plumbline/internal/atomicfile"
)

// fileVersion is the version of file that this build writes, and reads.
const fileVersion = 1

// file is what a Cache knows, on disk. It only saves asking again: losing it
// costs nothing but a gap in the ResourceSlice.
type file struct {
	Version  int               `json:"version"`
	BootID   string            `json:"bootID"`
	Provider string            `json:"provider"`
	Answers  map[string]Answer `json:"answers"`
}

func (c *Cache) load(ctx context.Context) {
	if c.File == "" {
		return
	}
	text, err := os.ReadFile(c.File)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var f file
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		klog.FromContext(ctx).Info("what the cloud said before is lost; it is asked again", "file", c.File, "reason", err.Error())
		return
	}
	i := slices.IndexFunc(c.Candidates, func(p Provider) bool { return p.Name() == f.Provider })
	if i < 0 || f.Version != fileVersion || f.BootID != c.BootID {
		return
	}
	c.provider = c.Candidates[i]
	for key, a := range f.Answers {
		c.answers[key] = sanitize(a)
	}
}

// save is called with the lock held.
func (c *Cache) save(ctx context.Context) {
	if c.File == "" || c.provider == nil {
		return
	}
	f := file{Version: fileVersion, BootID: c.BootID, Provider: c.provider.Name(), Answers: c.answers}
	if err := writeJSON(c.File, f); err != nil {
		klog.FromContext(ctx).Error(err, "what the cloud said is not kept over a restart")
	}
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return atomicfile.Write(path, 0o600, bytes.NewReader(append(text, '\n')))
}
