// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package egx

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"plumbline.dev/plumbline/lab/image"
	"plumbline.dev/plumbline/lab/scenario"
)

// What the example's manifests name, and a run may have another of.
const (
	articleLink = "ens2f0"
	overlay     = "lab"
)

// example are the objects of the example's overlay by "Kind name", as text.
type example map[string]string

// readExample has kubectl make the overlay, with the node's link and image for the
// example's.
func readExample(ctx context.Context, k scenario.Kubectl, folder, link, container string) (example, error) {
	text, err := k.Run(ctx, "kustomize", filepath.Join(folder, overlay))
	if err != nil {
		return nil, err
	}
	text = strings.NewReplacer(articleLink, link, image.Busybox, container).Replace(text)
	return parseExample(text)
}

func parseExample(text string) (example, error) {
	objects := example{}
	for part := range strings.SplitSeq(text, "\n---\n") {
		var head struct {
			metav1.TypeMeta `json:",inline"`
			Metadata        metav1.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(part), &head); err != nil {
			return nil, fmt.Errorf("read the example: %w", err)
		}
		objects[head.Kind+" "+head.Metadata.Name] = part
	}
	return objects, nil
}

// of are the named objects, for kubectl to apply.
func (e example) of(names ...string) (string, error) {
	var parts []string
	for _, name := range names {
		part, there := e[name]
		if !there {
			return "", fmt.Errorf("read the example: no %s", name)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "\n---\n"), nil
}
