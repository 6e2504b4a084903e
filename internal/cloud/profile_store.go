// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"plumbline.dev/plumbline/api/v1alpha1"
	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/internal/driver"
)

// resolutions is what the profiles of one claim were resolved to, on disk as
// <claim UID>.json.
type resolutions struct {
	Version int             `json:"version"`
	Claim   driver.ClaimRef `json:"claim"`
	// Ended is true from the claim's end until the provider has released it.
	Ended   bool         `json:"ended,omitempty"`
	Devices []resolution `json:"devices"`
}

// resolution is that of one device.
type resolution struct {
	Request string          `json:"request"`
	Release ReleaseRequest  `json:"release"`
	Answer  json.RawMessage `json:"answer,omitempty"`
}

// find returns what was resolved for the same question; nil on nothing.
func (r *resolutions) find(d Device, a driver.Allocation, config *v1alpha1.NetworkConfig) *resolution {
	if r == nil {
		return nil
	}
	for i := range r.Devices {
		known, is := &r.Devices[i], &r.Devices[i].Release
		if known.Request == a.Request && is.Device.Name == d.Name && is.ShareID == shareOf(a) && reflect.DeepEqual(is.Config, config) {
			return known
		}
	}
	return nil
}

// shareOf is empty for a whole device.
func shareOf(a driver.Allocation) types.UID {
	if a.ShareID == nil {
		return ""
	}
	return *a.ShareID
}

// remember adds a resolution to those of a claim, on disk first.
func (p *Profiles) remember(known *resolutions, c driver.ClaimRef, r resolution) (*resolutions, error) {
	all := &resolutions{Version: fileVersion, Claim: c}
	if known != nil {
		all.Devices = append(all.Devices, known.Devices...)
	}
	all.Devices = append(all.Devices, r)
	return all, p.write(all)
}

const suffix = ".json"

// safeUID is what a claim's UID looks like when it may be a file's name.
var safeUID = regexp.MustCompile(`^[0-9a-zA-Z][0-9a-zA-Z-]{0,127}$`)

func (p *Profiles) path(uid types.UID) (string, error) {
	if !safeUID.MatchString(string(uid)) {
		return "", fmt.Errorf("claim UID %q: want letters, digits and dashes", uid)
	}
	return filepath.Join(p.Dir, string(uid)+suffix), nil
}

// read returns nil for a claim without a file.
func (p *Profiles) read(uid types.UID) (*resolutions, error) {
	path, err := p.path(uid)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r resolutions
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if r.Version > fileVersion || r.Claim.UID != uid {
		return nil, fmt.Errorf("read %s: it is of version %d for claim %s, want version %d at most for claim %s", path, r.Version, r.Claim.UID, fileVersion, uid)
	}
	return &r, nil
}

func (p *Profiles) write(r *resolutions) error {
	path, err := p.path(r.Claim.UID)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return err
	}
	return writeJSON(path, r)
}

func (p *Profiles) forget(uid types.UID) error {
	path, err := p.path(uid)
	if err != nil {
		return err
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return atomicfile.SyncDir(p.Dir)
}

// claims lists those with a file.
func (p *Profiles) claims() ([]types.UID, error) {
	entries, err := os.ReadDir(p.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var uids []types.UID
	for _, e := range entries {
		if uid, ok := strings.CutSuffix(e.Name(), suffix); ok && safeUID.MatchString(uid) {
			uids = append(uids, types.UID(uid))
		}
	}
	return uids, nil
}
