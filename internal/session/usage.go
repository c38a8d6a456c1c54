// SPDX-License-Identifier: Apache-2.0

package session

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
func (s *Session) Usage() map[string]Usage {
	if s.Ended() != nil {
		return nil
	}
	return s.nodes.usage()
}

func (o *outstanding) usage() map[string]Usage {
	o.mu.Lock()
	defer o.mu.Unlock()
	usage := make(map[string]Usage)
	for p := range o.all {
		if p.Name != "" {
			continue // no contender
		}
		u := usage[p.Parent]
		_, granted := o.granted[p]
		switch {
		case p.state == creating:
			u.Joining++
		case p.state != held:
			u.Leaving++
		case !granted:
			u.Waiting++
		default:
			u.Granted++
			if u.Oldest.IsZero() || p.grantedAt.Before(u.Oldest) {
				u.Oldest = p.grantedAt
			}
		}
		usage[p.Parent] = u
	}
	return usage
}
