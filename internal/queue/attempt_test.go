// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestAnswerDecidesWhatAJoinDoesNext(t *testing.T) {
	const tag = 7
	ordinary, stuck := protocol.Member{Sequence: 5}, protocol.Member{Sequence: protocol.OverflowSequence}
	same, other := &zk.Stat{Czxid: tag}, &zk.Stat{Czxid: tag + 1}
	for name, c := range map[string]struct {
		member     protocol.Member
		inName     bool
		parent     *zk.Stat
		overflowed bool
		err        error
		cancelled  bool
		want       joinStep
	}{
		"created":                               {parent: same, want: stay},
		"created below a parent of others":      {want: stay},
		"created in another life of the parent": {parent: other, want: leaveOtherLife},
		"the same, for a caller that has gone":  {parent: other, cancelled: true, want: leaveOtherLife},
		"created with a number that recurs":     {member: stuck, parent: same, want: leaveRecurring},
		"the same, with a nonce in the name":    {member: stuck, inName: true, parent: same, want: stay},
		"created for a caller that has gone":    {parent: same, cancelled: true, want: leaveCancelled},
		"witness is missing":                    {err: errMissed, want: retryUnwitnessed},
		"another contender has joined":          {err: ErrContended, want: fail},
		"parent may not be written":             {err: ErrReadOnly, want: retryUnwritten},
		"connection ended":                      {err: zk.ErrConnectionClosed, want: findOut},
		"caller has gone without an answer":     {err: fmt.Errorf("%w: %w", recipes.ErrUncertain, context.Canceled), cancelled: true, want: findOut},
		"answer without a name":                 {err: zk.ErrUnknown, want: findOut},
		"read after the create failed":          {err: fmt.Errorf("%w: %w", recipes.ErrUncertain, zk.ErrNoNode), want: findOut},
		"parent is missing":                     {err: zk.ErrNoNode, want: retryReread},
		"name is taken":                         {err: zk.ErrNodeExists, want: retryWithNonce},
		"name is taken in spite of its nonce":   {err: zk.ErrNodeExists, overflowed: true, want: fail},
		"permission refused":                    {err: zk.ErrNoAuth, want: fail},
		"never sent":                            {err: session.NotSent(io.EOF), want: fail},
		"session expired":                       {err: zk.ErrSessionExpired, want: fail},
	} {
		if c.member.Name == "" && c.member.Sequence == 0 {
			c.member = ordinary
		}
		a := Attempt{View: parentView{tag: tag, overflowed: c.overflowed}, Place: &Place{Member: c.member, inName: c.inName}, parent: c.parent, Err: c.err}
		require.Equal(t, c.want, a.next(c.cancelled), name)
	}
}

func TestSearchDecidesWhatAJoinWithoutAnAnswerDoesNext(t *testing.T) {
	for name, c := range map[string]struct {
		sequence int32
		err      error
		found    bool
		want     joinStep
	}{
		"found":                                  {5, zk.ErrConnectionClosed, true, stay},
		"found with a number that recurs":        {protocol.OverflowSequence, zk.ErrConnectionClosed, true, leaveRecurring},
		"never created":                          {0, zk.ErrConnectionClosed, false, retry},
		"never created, for a reason not stated": {0, zk.ErrUnknown, false, fail},
	} {
		a := Attempt{Place: &Place{Member: protocol.Member{Sequence: c.sequence}}, Err: c.err}
		require.Equal(t, c.want, a.afterSearch(c.found), name)
	}
}
