// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"plumbline.dev/plumbline/internal/model"
)

// kindPrefix marks an entry that names a kind of link.
const kindPrefix = "kind:"

// Interfaces says which virtual interfaces may be offered, by a list of names,
// patterns of names ("nic*") and kinds ("kind:macvlan", as netlink's
// IFLA_INFO_KIND). An empty list is nil: none.
func Interfaces(list []string) (func(model.Interface) bool, error) {
	var names, kinds []string
	for _, entry := range list {
		kind, isKind := strings.CutPrefix(entry, kindPrefix)
		if _, err := path.Match(entry, ""); entry == "" || isKind && kind == "" || err != nil {
			return nil, fmt.Errorf("%q: want the name of an interface, a pattern such as nic*, or kind:KIND such as kind:macvlan", entry)
		}
		if isKind {
			kinds = append(kinds, kind)
		} else {
			names = append(names, entry)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	return func(i model.Interface) bool {
		return i.Kind != nil && slices.Contains(kinds, *i.Kind) || slices.ContainsFunc(names, func(pattern string) bool {
			matched, err := path.Match(pattern, i.Name)
			return matched && err == nil
		})
	}, nil
}
