// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/group"
)

// A census is what a leader knows of the members during its term. It is safe for concurrent use.
type census struct {
	mu      sync.Mutex            // guards what follows
	present map[string]membership // registered, and not about to leave
	left    map[string]membership // present before, and not since
	since   map[string]time.Time  // when the leader found a member with a record absent
}

func newCensus() *census {
	return &census{present: map[string]membership{}, left: map[string]membership{}, since: map[string]time.Time{}}
}

// update records the members that the group has now. It returns those whose metadata is invalid, which count as absent.
func (c *census) update(now []group.Member) (invalid map[string]error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.present
	c.present = make(map[string]membership, len(now))
	leaving := map[string]bool{}
	for _, m := range now {
		decoded, err := memberships.Decode(m.Metadata)
		switch {
		case err != nil:
			if invalid == nil {
				invalid = map[string]error{}
			}
			invalid[m.ID] = err
		case decoded.Leaving:
			leaving[m.ID] = true
			c.left[m.ID] = decoded
		default:
			c.present[m.ID] = decoded
			delete(c.left, m.ID)
			delete(c.since, m.ID)
		}
	}
	for id, m := range before {
		if _, still := c.present[id]; !still && !leaving[id] {
			c.left[id] = m
		}
	}
	return invalid
}

// input returns the input of the assignment function at an instant, and when the next absent member is no longer waited for, zero if there is none.
// A member is waited for if it has a record with partitions.
func (c *census) input(partitions []string, records stored, now time.Time) (in Input, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in = Input{Partitions: slices.Clone(partitions), Current: records.assigned()}
	for id, m := range c.present {
		in.Members = append(in.Members, Member{ID: id, Weight: m.Weight, Metadata: m.Metadata})
	}
	for id := range c.left {
		if _, has := records[id]; !has { // nothing waits for it, and IDs of former members would add up
			delete(c.left, id)
			delete(c.since, id)
		}
	}
	for id, r := range records {
		m, known := c.left[id]
		if _, isPresent := c.present[id]; isPresent || len(r.Partitions) == 0 || known && m.Leaving {
			continue
		}
		if !known {
			m = membership{Weight: r.Weight, RejoinWait: r.RejoinWait}
			c.left[id] = m
		}
		if c.since[id].IsZero() {
			c.since[id] = now
		}
		if until := c.since[id].Add(m.RejoinWait); now.Before(until) {
			in.Members = append(in.Members, Member{ID: id, Weight: m.Weight, Absent: true})
			if next.IsZero() || until.Before(next) {
				next = until
			}
		}
	}
	slices.SortFunc(in.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return in, next
}

// records returns the records of an assignment of the input, by ID. A member without partitions has none.
func (c *census) records(in Input, assigned map[string]string) map[string]share {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]share)
	for _, p := range in.Partitions { // sorted
		id := assigned[p]
		r, found := all[id]
		if !found {
			m, isPresent := c.present[id]
			if !isPresent { // absent, or it has left since the input
				m = c.left[id]
			}
			r = share{Weight: m.Weight, RejoinWait: m.RejoinWait}
		}
		r.Partitions = append(r.Partitions, p)
		all[id] = r
	}
	return all
}

// changes returns the operations of a term that make the records of all members those. above is the path of the node above them, below the namespace. Each
// operation checks that the record is as it was read.
func changes(above string, token fencing.Token, now stored, next map[string]share, acl []zk.ACL) (ops []any, err error) {
	for _, id := range slices.Sorted(maps.Keys(next)) {
		r, exists := now[id]
		if exists && r.assigns(next[id]) {
			continue
		}
		written := next[id]
		written.Token = token
		data, err := shares.Encode(written)
		if err != nil {
			return nil, err
		}
		if !exists {
			ops = append(ops, &zk.CreateRequest{Path: above + "/" + id, Data: data, Acl: acl})
		} else {
			ops = append(ops, &zk.SetDataRequest{Path: above + "/" + id, Data: data, Version: r.content.Stat.Version})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(now)) {
		if _, kept := next[id]; !kept {
			ops = append(ops, &zk.DeleteRequest{Path: above + "/" + id, Version: now[id].content.Stat.Version})
		}
	}
	return ops, nil
}
