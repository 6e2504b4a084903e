// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"plumbline.dev/plumbline/lab/vm"
	"plumbline.dev/plumbline/lab/vm/guest"
)

// reload brings new images into a running node, so that an edit of plumbline needs no
// reboot.
func (c *Cluster) reload(ctx context.Context, b *ArtifactBuilder, archives []string) error {
	has, err := os.ReadFile(c.imagesFile())
	if err != nil {
		return err
	}
	bring, err := c.importer()
	if err != nil {
		return err
	}
	for _, archive := range archives {
		digest, err := digestOf(archive)
		if err != nil {
			return err
		}
		if strings.Contains(string(has), digest) {
			continue
		}
		task := b.progress.Start("images of " + filepath.Base(archive))
		if err := bring(ctx, archive); err != nil {
			task.Fail()
			return fmt.Errorf("bring new images into the node: %w", err)
		}
		task.Done("imported")
	}
	return c.noteImages(archives)
}

// importer brings an archive of images to the node that runs.
func (c *Cluster) importer() (func(ctx context.Context, archive string) error, error) {
	onHost, err := c.onHost()
	if onHost {
		return c.importOnHost, err
	}
	return c.importImages, err
}

// noteImages records which archives of images the node has.
func (c *Cluster) noteImages(archives []string) error {
	var text strings.Builder
	for _, archive := range archives {
		digest, err := digestOf(archive)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", digest, archive)
	}
	return os.WriteFile(c.imagesFile(), []byte(text.String()), 0o644)
}

// imagesFile records the digest and the path of each archive of images that the node
// has.
func (c *Cluster) imagesFile() string { return filepath.Join(c.dir, "images") }

func digestOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// importSeconds is how long a guest may take to import an archive: an emulated processor
// beside other work needs minutes for 60 MB.
const importSeconds = 600

// importImages serves the archive on the host's loopback for as long as the
// guest takes to fetch it.
func (c *Cluster) importImages(ctx context.Context, images string) error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.ServeFile(w, r, images)
		}),
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	fetch := fmt.Sprintf("set -o pipefail; wget -q -O - http://%s:%d/ | ctr -n k8s.io images import -",
		vm.HostAddress, listener.Addr().(*net.TCPAddr).Port)
	response, err := c.machine().Exec(ctx, guest.Request{Argv: []string{"/bin/sh", "-c", fetch}, TimeoutSeconds: importSeconds})
	if err != nil {
		return err
	}
	return importError(response.Code, string(response.Stderr))
}

// importOnHost hands the archive to the node on this host.
func (c *Cluster) importOnHost(ctx context.Context, images string) error {
	f, err := os.Open(images)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var complaint bytes.Buffer
	code, err := c.runOnHost(ctx, []string{"ctr", "-n", "k8s.io", "images", "import", "-"}, f, io.Discard, &complaint)
	if err != nil {
		return err
	}
	return importError(code, complaint.String())
}

// AddImages brings an archive of further images to the node.
func (c *Cluster) AddImages(ctx context.Context, archive string) error {
	bring, err := c.importer()
	if err != nil {
		return err
	}
	if err := bring(ctx, archive); err != nil {
		return fmt.Errorf("bring images into the node: %w", err)
	}
	return nil
}

// ImagesOnHost are the names that the node on this host gives the images of an archive. They
// are brought to a namespace of containerd's that nothing runs from, and go again.
func (c *Cluster) ImagesOnHost(ctx context.Context, archive string) ([]string, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	const script = `ctr -n "$1" images import - >/dev/null && ctr -n "$1" images ls -q; rc=$?
ctr -n "$1" images rm --sync $(ctr -n "$1" images ls -q) >/dev/null; ctr namespaces rm "$1" >/dev/null; exit $rc`
	var out, complaint bytes.Buffer
	code, err := c.runOnHost(ctx, []string{"/bin/sh", "-c", script, "sh", "plumblab-archive"}, f, &out, &complaint)
	if err != nil {
		return nil, err
	}
	return strings.Fields(out.String()), importError(code, complaint.String())
}

func importError(code int, complaint string) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("exit code %d: %w", code, errors.New(strings.TrimSpace(complaint)))
}
