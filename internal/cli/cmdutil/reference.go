// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"slices"
	"strings"
)

// Kinds of objects that a command line names.
const (
	KindClaim    = "ResourceClaim"
	KindTemplate = "ResourceClaimTemplate"
	KindClass    = "DeviceClass"
	KindPod      = "Pod"
)

// kindWords are the words for each kind, as kubectl takes them; the first is the one of
// our own texts.
var kindWords = map[string][]string{
	KindClaim:    {"claim", "resourceclaim", "resourceclaims"},
	KindTemplate: {"template", "resourceclaimtemplate", "resourceclaimtemplates"},
	KindClass:    {"class", "deviceclass", "deviceclasses"},
	KindPod:      {"pod", "pods", "po"},
}

// Reference names an object of the command line's namespace.
type Reference struct{ Kind, Name string }

// ParseReferences reads "claim/NAME" and the like, of the given kinds alone.
func ParseReferences(args []string, kinds ...string) ([]Reference, error) {
	var all []Reference
	for _, arg := range args {
		word, name, _ := strings.Cut(arg, "/")
		at := slices.IndexFunc(kinds, func(kind string) bool { return slices.Contains(kindWords[kind], strings.ToLower(word)) })
		if at < 0 || name == "" || strings.Contains(name, "/") {
			return nil, Usagef("%q: want %s", arg, forms(kinds))
		}
		all = append(all, Reference{kinds[at], name})
	}
	return all, nil
}

// forms is such as "claim/NAME, pod/NAME or template/NAME".
func forms(kinds []string) string {
	var all []string
	for _, kind := range kinds {
		all = append(all, kindWords[kind][0]+"/NAME")
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}
