// SPDX-License-Identifier: Apache-2.0

package nodes

import "time"

// A Usage counts the nodes of contenders that a session has below one parent.
type Usage struct {
	Joining int       // their create was not answered yet
	Waiting int       // they exist, and nothing is granted on them
	Granted int       // something is granted on them
	Leaving int       // they are still to be deleted
	Oldest  time.Time // when the oldest of the grants was made; zero if there is none
}

// Usage returns the counts of all parents below which the session may have a node. It
// returns none once the session is over: its nodes go with it.
func (s *Set) Usage() map[string]Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return nil
	}
	usage := make(map[string]Usage)
	for n, e := range s.all {
		if n.Kind == Named {
			continue // no contender
		}
		u := usage[n.Parent]
		g, isGranted := s.grants[n]
		switch {
		case e.state == creating:
			u.Joining++
		case !e.state.isQueued():
			u.Leaving++
		case !isGranted:
			u.Waiting++
		default:
			u.Granted++
			if u.Oldest.IsZero() || g.at.Before(u.Oldest) {
				u.Oldest = g.at
			}
		}
		usage[n.Parent] = u
	}
	return usage
}
