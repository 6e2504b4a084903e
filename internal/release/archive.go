// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/ociimage"
)

// gzipped is an archive of files. Its header has neither name nor time.
func gzipped(content ociimage.Layer) ([]byte, error) {
	archive, err := content.Tar()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(archive); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// checksums lists the SHA-256 of files in dir, as "sha256sum --check" reads them.
func checksums(dir string, names []string) (string, error) {
	var out strings.Builder
	for _, name := range slices.Sorted(slices.Values(names)) {
		sum, err := checksum(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, name)
	}
	return out.String(), nil
}

func checksum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
