// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"plumbline.dev/plumbline/internal/ociimage"
)

// Options say where a release will lie.
type Options struct {
	// Repository is the image's name without a tag, where clusters pull it.
	Repository string
	// DownloadURL is the folder that the files of the release are downloaded from.
	DownloadURL string
	// OnStep is called with the name of each step that begins.
	OnStep func(name string)
}

// Write makes a release in the folder out, in the place of what was there, and
// returns the image's digest. Until everything is made, out is as it was. A folder does
// not take the place of another one in a single step: between the two renames of replace
// the old release lies beside out, from where the next Write brings it back.
func (s Source) Write(ctx context.Context, out string, o Options) (digest string, err error) {
	if err := recoverOld(out); err != nil {
		return "", err
	}
	unfinished := out + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	work := filepath.Join(unfinished, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(unfinished) // the reason is told already
		}
	}()
	if digest, err = s.write(ctx, unfinished, work, o); err != nil {
		return "", err
	}
	if err := os.RemoveAll(work); err != nil {
		return "", err
	}
	return digest, replace(unfinished, out)
}

// oldOf is where the release that out had lies while the new one comes into its place.
func oldOf(out string) string { return out + ".old" }

// replace puts the folder made into the place of out. Whatever it is killed at, there is
// a whole release in out or in oldOf(out).
func replace(made, out string) error {
	old := oldOf(out)
	if err := os.Rename(out, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(made, out); err != nil {
		return errors.Join(err, recoverOld(out))
	}
	return os.RemoveAll(old)
}

// recoverOld mends what a replace that was killed has left: a release that is nowhere else
// comes back, and one whose successor is there goes.
func recoverOld(out string) error {
	old := oldOf(out)
	_, err := os.Lstat(out)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(old, out); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(old)
}

func (s Source) write(ctx context.Context, dir, work string, o Options) (string, error) {
	o.OnStep("image")
	image, err := s.Image(ctx, work, Architectures...)
	if err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	stem := "plumbline-" + s.Version
	files, err := image.Write(dir, o.Repository+":"+s.Version, stem+"-image")
	if err != nil {
		return "", err
	}
	o.OnStep("chart")
	chart := filepath.Join(work, "chart")
	if err := s.writeChart(chart, o.Repository, digest.String()); err != nil {
		return "", err
	}
	content, err := s.manifests(chart)
	if err != nil {
		return "", err
	}
	if content[stem+".tgz"], err = s.packChart(chart); err != nil {
		return "", err
	}
	o.OnStep("command line tools")
	archives, err := s.writeClients(ctx, work, dir)
	if err != nil {
		return "", err
	}
	files = slices.AppendSeq(files, maps.Values(archives))
	if content["plumbline.krew.yaml"], err = s.krewManifest(dir, o.DownloadURL, archives); err != nil {
		return "", err
	}
	for name, data := range content {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return "", err
		}
		files = append(files, name)
	}
	o.OnStep("bundle for clusters without internet")
	bundle, err := s.writeBundle(dir, stem, files)
	if err != nil {
		return "", err
	}
	sums, err := checksums(dir, append(files, bundle))
	if err != nil {
		return "", err
	}
	return digest.String(), os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums), 0o644)
}

// writeBundle packs into one file whatever an installation without internet needs:
// all files of the release, and their checksums.
func (s Source) writeBundle(dir, stem string, files []string) (string, error) {
	sums, err := checksums(dir, files)
	if err != nil {
		return "", err
	}
	content := ociimage.Layer{Files: map[string]string{stem + "/SHA256SUMS": sums}, Time: s.Time}
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		content.Files[stem+"/"+name] = string(data)
	}
	// What is in it is packed already.
	packed, err := content.Tar()
	if err != nil {
		return "", fmt.Errorf("pack the bundle: %w", err)
	}
	name := stem + "-offline.tar"
	return name, os.WriteFile(filepath.Join(dir, name), packed, 0o644)
}
