// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package devicemetadata

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/internal/driver"
)

// Dir is a directory of metadata files, a folder for each driver and claim.
type Dir struct{ path string }

// Open makes the directory where it is missing.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("open the directory of device metadata: %w", err)
	}
	return &Dir{path: filepath.Clean(path)}, nil
}

// Told is what is told of a device.
type Told struct {
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	// Network is nil while nothing is known of it in a pod, and of what is no NIC.
	Network *resourceapi.NetworkDeviceData
}

// Write puts the files of a prepared claim in place. podClaim is the claim's name within
// the pod, of one that was made from a template; all are of the record's devices, in
// order.
func (d *Dir) Write(r driver.Record, podClaim *string, all []Told) error {
	for _, request := range requestsOf(r) {
		file, err := d.file(r, request.base)
		if err != nil {
			return err
		}
		m := &metadata.DeviceMetadata{
			ObjectMeta:   metav1.ObjectMeta{Namespace: r.Claim.Namespace, Name: r.Claim.Name, UID: r.Claim.UID, Generation: 1},
			PodClaimName: podClaim,
			Requests:     []metadata.DeviceMetadataRequest{{Name: request.name}},
		}
		if before, err := readOf(r, file); err == nil { // prepared before: whoever reads tells the two apart
			m.Generation = before.Generation + 1
		}
		for _, i := range request.devices {
			m.Requests[0].Devices = append(m.Requests[0].Devices, metadata.Device{
				Driver: r.Driver, Pool: r.Devices[i].Pool, Name: r.Devices[i].Device,
				Attributes: bounded(all[i].Attributes), NetworkData: all[i].Network,
			})
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("device metadata of claim %s: %w", r.Claim, err)
		}
		if err := write(file, m); err != nil {
			return fmt.Errorf("device metadata of claim %s: %w", r.Claim, err)
		}
	}
	return nil
}

// Update tells what has become known since, in the pod: the network data takes the place
// of the one before, and attributes that of those of their names; one without a value
// is not known any more. It changes the files of containers that are created from now
// on. A claim that was prepared without metadata stays without.
func (d *Dir) Update(r driver.Record, late []Told) error {
	for _, request := range requestsOf(r) {
		file, err := d.file(r, request.base)
		if err != nil {
			return err
		}
		m, err := readOf(r, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && (len(m.Requests) != 1 || len(m.Requests[0].Devices) != len(request.devices)) {
			err = fmt.Errorf("%s has other devices", file)
		}
		if err != nil {
			return fmt.Errorf("device metadata of claim %s: %w", r.Claim, err)
		}
		before := m.DeepCopy()
		for at, i := range request.devices {
			device := &m.Requests[0].Devices[at]
			device.Attributes, device.NetworkData = bounded(merged(device.Attributes, late[i].Attributes)), late[i].Network
		}
		if apiequality.Semantic.DeepEqual(before, m) {
			continue // each creation of a container comes here
		}
		m.Generation++
		if err := write(file, m); err != nil {
			return fmt.Errorf("device metadata of claim %s: %w", r.Claim, err)
		}
	}
	return nil
}

// Mounts are the claim's files as containers get them, each with the first device of its
// request: a container has all devices of a request. There is no entry where there is no
// file, and none of those that the error tells of, which cannot be read: the machine may
// have ended before they were on the disk, and the claim is prepared anew.
func (d *Dir) Mounts(r driver.Record) (map[int]driver.Mount, error) {
	mounts := map[int]driver.Mount{}
	var errs []error
	for _, request := range requestsOf(r) {
		file, err := d.file(r, request.base)
		if err != nil {
			return nil, err
		}
		m, err := readOf(r, file)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("device metadata of claim %s: %w", r.Claim, err))
			}
			continue
		}
		inside := metadata.ResourceClaimFilePath(r.Driver, r.Claim.Name, request.base)
		if m.PodClaimName != nil && *m.PodClaimName != "" {
			inside = metadata.ResourceClaimTemplateFilePath(r.Driver, *m.PodClaimName, request.base)
		}
		mounts[request.devices[0]] = driver.Mount{Source: file, Destination: inside}
	}
	return mounts, errors.Join(errs...)
}

// Tells says whether a path of the host is one of the directory's files that tell of
// devices, and not one that Place has put beside them.
func (d *Dir) Tells(file string) bool {
	rest, ok := strings.CutPrefix(file, d.path)
	return ok && strings.HasPrefix(rest, "/") && strings.Count(rest, "/") == 3 && strings.HasSuffix(rest, ".json")
}

// Place puts another file for the containers of a claim beside its metadata, and returns
// its path.
func (d *Dir) Place(r driver.Record, name string, content []byte) (string, error) {
	folder, err := d.folder(r.Driver, r.Claim.UID)
	var file string
	if err == nil {
		file, err = below(folder, name)
	}
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err == nil {
		err = atomicfile.Replace(file, 0o644, content)
	}
	if err != nil {
		return "", fmt.Errorf("file for containers of claim %s: %w", r.Claim, err)
	}
	return file, nil
}

// Remove takes a claim's files away. It is no error when there are none. A container that
// runs keeps those that it has.
func (d *Dir) Remove(driverName string, uid types.UID) error {
	folder, err := d.folder(driverName, uid)
	if err == nil {
		err = os.RemoveAll(folder)
	}
	if err != nil {
		return fmt.Errorf("remove device metadata: %w", err)
	}
	return nil
}

// Claims lists the claims that have files of the driver.
func (d *Dir) Claims(driverName string) ([]types.UID, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, driverName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list device metadata: %w", err)
	}
	var uids []types.UID
	for _, e := range entries {
		uids = append(uids, types.UID(e.Name()))
	}
	return uids, nil
}

// request are the devices of a record that one request of the claim was given.
type request struct {
	// name may be of an alternative, such as nic/fast, and base is the request's.
	name, base string
	devices    []int
}

func requestsOf(r driver.Record) []request {
	var all []request
	for i, d := range r.Devices {
		at := slices.IndexFunc(all, func(other request) bool { return other.name == d.Request })
		if at < 0 {
			at = len(all)
			all = append(all, request{name: d.Request, base: resourceclaim.BaseRequestRef(d.Request)})
		}
		all[at].devices = append(all[at].devices, i)
	}
	return all
}

func (d *Dir) folder(driverName string, uid types.UID) (string, error) {
	return below(filepath.Join(d.path, driverName), string(uid))
}

func (d *Dir) file(r driver.Record, request string) (string, error) {
	folder, err := d.folder(r.Driver, r.Claim.UID)
	if err != nil {
		return "", fmt.Errorf("device metadata of claim %s: %w", r.Claim, err)
	}
	file, err := below(folder, request)
	if err != nil {
		return "", fmt.Errorf("device metadata of claim %s: %w", r.Claim, err)
	}
	return file + ".json", nil
}

// below refuses what must not become a file name: the API server's UIDs and requests are
// plain, but a claim's text is input like any other.
func below(dir, name string) (string, error) {
	if name == "" || name == "." || name == ".." || filepath.Base(name) != name {
		return "", fmt.Errorf("%q: want the name of a file", name)
	}
	return filepath.Join(dir, name), nil
}

// readOf reads a file of the record's claim.
func readOf(r driver.Record, file string) (*metadata.DeviceMetadata, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	m, err := decode(content)
	if err == nil && m.UID != r.Claim.UID {
		err = fmt.Errorf("is of claim UID %q", m.UID)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

func write(file string, m *metadata.DeviceMetadata) error {
	content, err := encode(m)
	if err != nil {
		return err
	}
	return atomicfile.Replace(file, 0o644, content)
}
