// SPDX-License-Identifier: Apache-2.0

package session

import "context"

// MaxInFlight bounds how many ordinary requests of one session are in flight. A heartbeat
// queues behind them on the connection and at the server, however many callers there are;
// this many are answered well within T/8. With half as many, a burst of 10,000 joins takes
// a sixth longer.
const MaxInFlight = 128

// forHolders is how many of them are reserved for requests of holders. In a burst of joins, a
// release, a Check or a Commit would otherwise wait for all of the joins.
const forHolders = 32

// A Role is the role of the caller of a request.
type Role bool

// The roles.
const (
	Ordinary Role = false
	Holder   Role = true // the caller holds a claim of the session
)

// A Turn is held by a request in flight: the channel that the turn is returned to.
type Turn chan struct{}

// turns bound the requests in flight.
type turns struct {
	ordinary Turn // one for each ordinary request
	holders  Turn // likewise, for those of holders alone
}

func newTurns() turns {
	return turns{ordinary: make(Turn, MaxInFlight-forHolders), holders: make(Turn, forHolders)}
}

// take waits for a turn, and returns nil if one of the contexts ends first. It calls Done only
// if no turn is free, because the first Done of a context, such as that of each release,
// allocates a channel.
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
