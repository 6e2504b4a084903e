// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package hostpolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"

	"plumbline.dev/plumbline/internal/atomicfile"
	"plumbline.dev/plumbline/internal/model"
)

// MaxSlots is how many claims can share a NIC at most: a macvlan's parent searches as many
// children for each packet that it floods.
const MaxSlots = 1024

// shareModes are the modes of each type, the kernel's own first.
var shareModes = map[string][]string{
	model.ShareMacvlan: {"bridge", "private", "vepa"},
	model.ShareIPvlan:  {"l2", "l3", "l3s"},
	model.ShareVLAN:    nil,
}

var shareFlags = []string{"bridge", "private", "vepa"}

// validateShare refuses what no NIC can be shared as.
func validateShare(s *model.Share) error {
	if s == nil {
		return nil
	}
	modes, known := shareModes[s.Type]
	if !known {
		return fmt.Errorf("share.type: %q: want %s, %s or %s", s.Type, model.ShareMacvlan, model.ShareIPvlan, model.ShareVLAN)
	}
	var errs []error
	if s.Mode != "" && !slices.Contains(modes, s.Mode) {
		errs = append(errs, fmt.Errorf("share.mode: %q: %s has %v", s.Mode, s.Type, modes))
	}
	if s.Flag != "" && (s.Type != model.ShareIPvlan || !slices.Contains(shareFlags, s.Flag)) {
		errs = append(errs, fmt.Errorf("share.flag: %q: want one of %v, and type %s", s.Flag, shareFlags, model.ShareIPvlan))
	}
	if !validTags(s) {
		errs = append(errs, fmt.Errorf("share.vlanIDs: %d-%d: want tags of 1-4094 with type %s, and none with another", s.FirstVLAN, s.LastVLAN, model.ShareVLAN))
	}
	if s.Slots < 1 || s.Slots > MaxSlots {
		errs = append(errs, fmt.Errorf("share.slots: %d: want 1-%d", s.Slots, MaxSlots))
	}
	if problems := validation.IsDNS1123Subdomain(s.Pool); s.Pool != "" && len(problems) > 0 {
		errs = append(errs, fmt.Errorf("share.ipam.pool: %q: want the name of a NetworkAddressPool: %s", s.Pool, problems[0]))
	}
	if s.Bandwidth < 0 {
		errs = append(errs, fmt.Errorf("share.bandwidth: %d: want bits per second", s.Bandwidth))
	}
	return errors.Join(errs...)
}

// validTags says whether a share has VLAN tags where it is to, and none elsewhere.
func validTags(s *model.Share) bool {
	if s.Type != model.ShareVLAN {
		return s.FirstVLAN == 0 && s.LastVLAN == 0
	}
	return 1 <= s.FirstVLAN && s.FirstVLAN <= s.LastVLAN && s.LastVLAN <= 4094
}

// shareText is a share as a field's value.
func shareText(s *model.Share) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(text)
}

// Shares are the links that policies offer for sharing. It is on disk, so that an agent
// that starts without an API server does not offer whole what pods share.
type Shares struct {
	file string

	mu sync.Mutex
	// offers are by the link's key. Those that are not confirmed were read from disk, and
	// hold until policies have been followed once.
	offers    map[string]model.Share
	confirmed map[string]bool
	changed   bool
}

// OpenShares reads what an earlier process offered.
func OpenShares(file string) (*Shares, error) {
	s := &Shares{file: file, offers: map[string]model.Share{}, confirmed: map[string]bool{}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s.offers)
	}
	if err != nil {
		return nil, fmt.Errorf("read which NICs are shared: %s: %w: remove it, and policies say so again", file, err)
	}
	return s, nil
}

// Begin starts a look at what policies want.
func (s *Shares) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = false
}

// read is the offer of a link as a field's value; empty where policies have not said so
// since this process started.
func (s *Shares) read(link string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if offer := s.offers[link]; s.confirmed[link] {
		return shareText(&offer)
	}
	return ""
}

func (s *Shares) write(link, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, there := s.offers[link]
	if value == "" {
		delete(s.offers, link)
		delete(s.confirmed, link)
		s.changed = s.changed || there
		return s.save()
	}
	var offer model.Share
	if err := json.Unmarshal([]byte(value), &offer); err != nil {
		return fmt.Errorf("share: %w", err)
	}
	s.offers[link], s.confirmed[link] = offer, true
	s.changed = s.changed || !there || was != offer
	return s.save()
}

// End drops what an earlier process offered and no policy wants any more. It says whether
// the offers are others than at Begin.
func (s *Shares) End() (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.offers)
	maps.DeleteFunc(s.offers, func(link string, _ model.Share) bool { return !s.confirmed[link] })
	if len(s.offers) == before {
		return s.changed, nil
	}
	return true, s.save()
}

// Any says whether any link is offered.
func (s *Shares) Any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.offers) > 0
}

func (s *Shares) save() error {
	text, err := json.Marshal(s.offers)
	if err == nil {
		err = atomicfile.Write(s.file, 0o600, bytes.NewReader(text))
	}
	if err != nil {
		return fmt.Errorf("keep which NICs are shared: %w", err)
	}
	return nil
}

// Describe adds to a machine how its NICs are shared. A NIC that claims have shares of, or
// that one has whole by its twin, stays as it was offered to them, whatever policies say by
// now: one that is not offered any more has no slots but theirs. exclusive says that an RDMA
// device is seen in one network namespace only, and so by no holder. The machine is not
// changed.
func (s *Shares) Describe(m *model.Machine, held []model.HeldShare, exclusive bool) *model.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.offers)+len(held) == 0 {
		return m
	}
	described := *m
	described.NICs = slices.Clone(m.NICs)
	for i := range described.NICs {
		n := &described.NICs[i]
		link, ok := linkOf(n)
		if !ok {
			continue
		}
		if n.Share = s.offerOf(link, held); n.Share != nil {
			n.Share.WithoutRDMA = exclusive
		}
	}
	return &described
}

// Doubt is a machine whose NICs are kept from claims that no policy offers: it is not known
// which of them pods share, and who has one whole would take it from under them. Those that
// claims hold whole stay. The machine is not changed.
func (s *Shares) Doubt(m *model.Machine, whole []model.NIC, why error) *model.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	sure := map[string]bool{}
	for key := range s.offers {
		sure[key] = true
	}
	for i := range whole {
		if link, ok := linkOf(&whole[i]); ok {
			sure[link.Key] = true
		}
	}
	doubted := *m
	doubted.NICs = slices.Clone(m.NICs)
	for i := range doubted.NICs {
		n := &doubted.NICs[i]
		if link, ok := linkOf(n); ok && !sure[link.Key] {
			n.Withhold(fmt.Sprintf("may be shared by pods, and that is not known: %v", why))
		}
	}
	return &doubted
}

// offerOf is how a link is offered: a copy, or nil.
func (s *Shares) offerOf(link Link, held []model.HeldShare) *model.Share {
	var taken *model.Share
	var slots int64
	for i := range held {
		if l, ok := linkOf(&held[i].NIC); ok && l.Key == link.Key && held[i].NIC.Share != nil {
			taken = held[i].NIC.Share
			slots += held[i].Slots
		}
	}
	offer, offered := s.offers[link.Key]
	switch {
	case taken == nil && !offered:
		return nil
	case taken == nil:
		return &offer
	}
	if offered && kindOf(offer) == kindOf(*taken) {
		// Who has the NIC whole keeps it so until the claim ends.
		offer.AlsoExclusive = offer.AlsoExclusive || slots == 0
		return &offer
	}
	left := *taken
	left.Slots = max(slots, 1)
	return &left
}

// kindOf is what links on a NIC have in common; the rest may change while there are some.
func kindOf(s model.Share) model.Share {
	return model.Share{Type: s.Type, Mode: s.Mode, Flag: s.Flag, FirstVLAN: s.FirstVLAN, LastVLAN: s.LastVLAN}
}
