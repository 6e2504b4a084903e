// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package mission

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// save writes the manifests of a row into the current folder: the document's own text, or
// what the deviation has instead.
func (r *run) save(ctx context.Context, t *terminal, d Document, row Row) error {
	v := row.Deviation
	if v == nil || len(v.Files) == 0 {
		if row.File == "" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(r.Examples, d.Name, "manifests", row.File))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(t.dir, row.File), text, 0o644)
	}
	document, err := t.objects(ctx, filepath.Join(r.Examples, d.Name, "manifests"))
	if err != nil {
		return err
	}
	here, err := t.objects(ctx, filepath.Join(r.Examples, d.Name, v.Overlay))
	if err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(v.Files)) {
		var parts []string
		differs := file != row.File
		for _, name := range v.Files[file] {
			part, there := here[name]
			if !there {
				return fmt.Errorf("save %s: overlay %s of %s has no %s", file, v.Overlay, d.Name, name)
			}
			differs = differs || part != document[name]
			parts = append(parts, part)
		}
		if !differs {
			return fmt.Errorf("save %s: the declared deviation is none: overlay %s has the document's own objects", file, v.Overlay)
		}
		text := strings.Join(parts, "---\n")
		if t.LabImage != "" {
			text = strings.ReplaceAll(text, t.LabImage, t.Image)
		}
		if err := os.WriteFile(filepath.Join(t.dir, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// objects are those that kubectl makes of a folder, by "Kind name"; none of one without
// manifests.
func (t *terminal) objects(ctx context.Context, folder string) (map[string]string, error) {
	if _, err := os.Stat(filepath.Join(folder, "kustomization.yaml")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: it has no kustomization.yaml", folder)
	}
	answer, err := t.typed(ctx, Step{}, "kubectl kustomize "+quote(folder))
	if err != nil {
		return nil, err
	}
	if answer.Code != 0 {
		return nil, fmt.Errorf("kubectl kustomize %s: %s", folder, answer.Ending())
	}
	objects := map[string]string{}
	for part := range strings.SplitSeq(answer.Out, "\n---\n") {
		var head struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(part), &head); err != nil {
			return nil, fmt.Errorf("read %s: %w", folder, err)
		}
		objects[head.Kind+" "+head.Metadata.Name] = strings.TrimSuffix(part, "\n") + "\n"
	}
	return objects, nil
}
