// SPDX-License-Identifier: Apache-2.0

package session

import "context"

// MaxInFlight bounds how many ordinary requests of one session are on their way. A
// heartbeat stands behind them on the connection and at the server, however many
// callers there are: so few of them are answered well within T/8. Half as many take a
// sixth longer for a burst of 10,000 joins.
const MaxInFlight = 128

// forHolders is how many of them are kept for what holders ask for. In a burst of joins,
// a release, a Check or a Commit would wait for as long as all of those take.
const forHolders = 32

// A Role is that of the caller that a request is made for.
type Role bool

// The roles.
const (
	Ordinary Role = false
	Holder   Role = true // of what was granted in the session
)

// A Turn is what a request on its way holds: the channel that it is returned to.
type Turn chan struct{}

// turns bound the requests on their way.
type turns struct {
	ordinary Turn // one for each ordinary request
	holders  Turn // likewise, for those of holders alone
}

func newTurns() turns {
	return turns{ordinary: make(Turn, MaxInFlight-forHolders), holders: make(Turn, forHolders)}
}

// take waits for a turn until one of the contexts has ended, and returns nil then. It asks
// for their channels only if no turn is free: that creates the channel of a context that
// is new to each release.
func (t turns) take(as Role, session, caller context.Context) Turn {
	select {
	case t.ordinary <- struct{}{}:
		return t.ordinary
	default:
	}
	var first Turn // nil: never free
	if as == Holder {
		first = t.holders
	}
	select {
	case t.ordinary <- struct{}{}:
		return t.ordinary
	case first <- struct{}{}:
		return first
	case <-session.Done():
	case <-caller.Done():
	}
	return nil
}
