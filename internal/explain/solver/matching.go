// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package solver

// enoughDevices says whether each wanted device can have one of its own, without
// a look at constraints: the search would find out too, but late.
func (q *search) enoughDevices() bool {
	m := matching{q: q, owner: map[int]int{}}
	for _, r := range q.order {
		request := &q.p.Claims[r.claim].Requests[r.request]
		if len(request.Alternatives) != 1 || request.Alternatives[0].WantsAll {
			continue
		}
		devices := q.s.candidates[r.claim][r.request][0]
		if q.anyShared(devices) {
			continue
		}
		for range request.Alternatives[0].Count {
			m.slots = append(m.slots, devices)
			m.seen = map[int]bool{}
			if !m.find(len(m.slots) - 1) {
				return false
			}
		}
	}
	return true
}

func (q *search) anyShared(devices []int) bool {
	for _, d := range devices {
		if q.p.Devices[d].Shared {
			return true
		}
	}
	return false
}

// matching is a bipartite matching of wanted devices to devices, grown along
// alternating paths.
type matching struct {
	q     *search
	slots [][]int
	owner map[int]int
	seen  map[int]bool
}

func (m *matching) find(slot int) bool {
	for _, d := range m.slots[slot] {
		if m.seen[d] {
			continue
		}
		m.seen[d] = true
		if other, taken := m.owner[d]; !taken || m.find(other) {
			m.owner[d] = slot
			return true
		}
	}
	return false
}
