// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strconv"
	"strings"

	"plumbline.dev/plumbline/internal/cli/cmdutil"
)

// Kinds that can be explained.
const (
	kindClaim    = "ResourceClaim"
	kindTemplate = "ResourceClaimTemplate"
	kindPod      = "Pod"
)

var kinds = map[string]string{
	"claim": kindClaim, "resourceclaim": kindClaim, "resourceclaims": kindClaim,
	"template": kindTemplate, "resourceclaimtemplate": kindTemplate, "resourceclaimtemplates": kindTemplate,
	"pod": kindPod, "pods": kindPod, "po": kindPod,
}

// reference names an object.
type reference struct{ kind, name string }

// parseReferences reads "claim/NAME" and the like.
func parseReferences(args []string) ([]reference, error) {
	var all []reference
	for _, arg := range args {
		word, name, ok := strings.Cut(arg, "/")
		kind := kinds[strings.ToLower(word)]
		if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
			return nil, cmdutil.Usagef("%q: want claim/NAME, pod/NAME or template/NAME", arg)
		}
		all = append(all, reference{kind, name})
	}
	return all, nil
}

// parseVersion reads "1.36", with or without a v and more behind it.
func parseVersion(text string) (int, error) {
	parts := strings.Split(strings.TrimPrefix(text, "v"), ".")
	if len(parts) >= 2 && parts[0] == "1" {
		digits := parts[1]
		if end := strings.IndexFunc(digits, func(c rune) bool { return c < '0' || c > '9' }); end >= 0 {
			digits = digits[:end]
		}
		if minor, err := strconv.Atoi(digits); err == nil && minor >= oldest {
			return minor, nil
		}
	}
	return 0, cmdutil.Usagef("--kubernetes-version %q: want 1.%d or newer", text, oldest)
}

// oldest is the first version with the stable API.
const oldest = 34

func checkFormat(format string) error {
	if slices.Contains([]string{"text", "json", "yaml"}, format) {
		return nil
	}
	return cmdutil.Usagef("output format %q: want text, json or yaml", format)
}
