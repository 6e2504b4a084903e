// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"archive/tar"
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// Layer is a tree of files: the content of an image's layer, or of any archive
// that is to be reproducible.
type Layer struct {
	// Programs maps a path in the layer to the host's file to copy there,
	// executable.
	Programs map[string]string
	// Files maps a path to its content, readable by all.
	Files map[string]string
	// Links maps a path to what the symbolic link there leads to.
	Links map[string]string
	// Dirs are folders that would else be missing, with their mode.
	Dirs map[string]os.FileMode
	// Time is when everything in the layer was last changed, to the second; zero
	// is 1970.
	Time time.Time
}

// Tar returns the layer as an archive in the order of its paths, folders first,
// owned by root.
func (l Layer) Tar() ([]byte, error) {
	headers := map[string]*tar.Header{}
	content := map[string][]byte{}
	for at, source := range l.Programs {
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		headers[at] = &tar.Header{Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(data))}
		content[at] = data
	}
	for at, text := range l.Files {
		headers[at] = &tar.Header{Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}
		content[at] = []byte(text)
	}
	for at, target := range l.Links {
		headers[at] = &tar.Header{Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}
	}
	for at, mode := range l.Dirs {
		headers[at] = dir(mode)
	}
	for _, at := range slices.Collect(maps.Keys(headers)) {
		for parent := path.Dir(at); parent != "." && parent != "/"; parent = path.Dir(parent) {
			if headers[parent] == nil {
				headers[parent] = dir(0o755)
			}
		}
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, at := range slices.Sorted(maps.Keys(headers)) {
		header := headers[at]
		header.Name, header.ModTime = strings.TrimPrefix(at, "/"), l.Time.Truncate(time.Second)
		if header.Typeflag == tar.TypeDir {
			header.Name += "/"
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", at, err)
		}
		if _, err := w.Write(content[at]); err != nil {
			return nil, fmt.Errorf("pack %s: %w", at, err)
		}
	}
	// Its end is written here.
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// dir is a folder's header. The sticky bit has its own place in an archive.
func dir(mode os.FileMode) *tar.Header {
	bits := int64(mode.Perm())
	if mode&os.ModeSticky != 0 {
		bits |= 0o1000
	}
	return &tar.Header{Typeflag: tar.TypeDir, Mode: bits}
}
