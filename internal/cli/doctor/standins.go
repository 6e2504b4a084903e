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
	uuid = regexp.MustCompile(`(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	// dotted finds what may be an IPv4 address, and coloned an IPv6 one: netip says whether
	// it is.
	dotted          = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)+`)
	coloned         = regexp.MustCompile(`(?i)[0-9a-f]*(?::[0-9a-f]*){2,}`)
	hardwareAddress = regexp.MustCompile(`(?i)\b(?:[0-9a-f]{2}[:-]){5,19}[0-9a-f]{2}\b|\b[0-9a-f]{12}\b`)
	guid            = regexp.MustCompile(`(?i)\b[0-9a-f]{4}(?::[0-9a-f]{4}){3}\b|\b0x[0-9a-f]{16}\b`)
)

// newStandIns also replaces names of hosts: each, and what is before its first dot.
func newStandIns(hosts []string) *standIns {
	s := &standIns{words: map[string]string{}, count: map[string]int{}}
	var names []string
	for _, name := range hosts {
		short, _, _ := strings.Cut(name, ".")
		for _, n := range []string{name, short} {
			if n != "" && n != "localhost" && !slices.Contains(names, regexp.QuoteMeta(n)) {
				names = append(names, regexp.QuoteMeta(n))
			}
		}
	}
	// The longer first: one may begin another.
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	if len(names) > 0 {
		s.hosts = regexp.MustCompile(`(?i)\b(?:` + strings.Join(names, "|") + `)\b`)
	}
	return s
}

// in returns the text with stand-ins.
func (s *standIns) in(text []byte) []byte {
	t := string(text)
	replace := func(what *regexp.Regexp, kind string) {
		t = what.ReplaceAllStringFunc(t, func(found string) string { return s.of(kind, strings.ToLower(found)) })
	}
	if s.hosts != nil {
		replace(s.hosts, "host")
	}
	replace(uuid, "uuid")
	t = dotted.ReplaceAllStringFunc(t, s.address)
	t = coloned.ReplaceAllStringFunc(t, func(found string) string {
		// A colon may be the sentence's.
		bare := strings.TrimSuffix(found, ":")
		if strings.HasSuffix(bare, ":") {
			bare = found
		}
		return s.address(bare) + found[len(bare):]
	})
	replace(hardwareAddress, "mac")
	replace(guid, "guid")
	return []byte(t)
}

// address is a stand-in for what is an address of others than this host alone.
func (s *standIns) address(found string) string {
	if a, err := netip.ParseAddr(found); err != nil || a.IsUnspecified() || a.IsLoopback() {
		return found
	}
	return s.of("ip", strings.ToLower(found))
}

func (s *standIns) of(kind, word string) string {
	if s.words[kind+word] == "" {
		s.count[kind]++
		s.words[kind+word] = fmt.Sprintf("%s-%d", kind, s.count[kind])
	}
	return s.words[kind+word]
}
