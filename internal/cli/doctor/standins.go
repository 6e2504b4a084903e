// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// standIns put other words in the place of addresses and hosts' names, the same for the
// same, so that a reader can still tell one from another.
type standIns struct {
	hosts *regexp.Regexp // nil without any
	words map[string]string
	count map[string]int
}

var (
	hardwareAddress = regexp.MustCompile(`(?i)\b(?:[0-9a-f]{2}[:-]){5,19}[0-9a-f]{2}\b`)
	guid            = regexp.MustCompile(`(?i)\b[0-9a-f]{4}(?::[0-9a-f]{4}){3}\b`)
	// maybeIP finds what may be an address; netip says whether it is one.
	maybeIP = regexp.MustCompile(`(?i)\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b|[0-9a-f:]*:[0-9a-f:]*:[0-9a-f:.]*`)
)

func newStandIns(hosts []string) *standIns {
	s := &standIns{words: map[string]string{}, count: map[string]int{}}
	var names []string
	for _, name := range hosts {
		if name != "" && name != "localhost" {
			names = append(names, regexp.QuoteMeta(name))
		}
	}
	// The longer first: one may begin another.
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	if len(names) > 0 {
		s.hosts = regexp.MustCompile(`\b(?:` + strings.Join(names, "|") + `)\b`)
	}
	return s
}

// in returns the text with stand-ins.
func (s *standIns) in(text []byte) []byte {
	t := string(text)
	if s.hosts != nil {
		t = s.hosts.ReplaceAllStringFunc(t, func(name string) string { return s.of("host", name) })
	}
	t = maybeIP.ReplaceAllStringFunc(t, func(found string) string {
		if a, err := netip.ParseAddr(found); err != nil || a.IsUnspecified() || a.IsLoopback() {
			return found
		}
		return s.of("ip", found)
	})
	t = hardwareAddress.ReplaceAllStringFunc(t, func(found string) string { return s.of("mac", strings.ToLower(found)) })
	return []byte(guid.ReplaceAllStringFunc(t, func(found string) string { return s.of("guid", strings.ToLower(found)) }))
}

func (s *standIns) of(kind, word string) string {
	if s.words[kind+word] == "" {
		s.count[kind]++
		s.words[kind+word] = fmt.Sprintf("%s-%d", kind, s.count[kind])
	}
	return s.words[kind+word]
}
