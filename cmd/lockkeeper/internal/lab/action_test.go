// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inFullBubble runs f while all contenders are in the queue, in the order of their names, and the first one works.
func inFullBubble(t *testing.T, f func(t *testing.T, l *Lab, p *player)) {
	t.Helper()
	inBubble(t, func(t *testing.T, l *Lab, p *player) {
		for _, name := range names {
			p.startAt(name, 2)
		}
		for _, name := range names {
			p.join(name)
		}
		require.NoError(t, p.err)
		f(t, l, p)
		require.NoError(t, p.err)
	})
}

// hasEvent reports whether an event of this source contains the text.
func (l *Lab) hasEvent(who, text string) bool {
	for _, e := range l.events() {
		if e.Who == who && strings.Contains(e.Text, text) {
			return true
		}
	}
	return false
}

func TestKilledHolderIsReplacedWhenItsSessionExpires(t *testing.T) {
	inFullBubble(t, func(t *testing.T, l *Lab, p *player) {
		p.do("kill", "a")
		require.False(t, l.hasEvent("zookeeper", "the session of a expires"), "it lives on")
		p.awaitLock("b", "holds")
		require.True(t, l.hasEvent("zookeeper", "the session of a expires, and its node is deleted"))
		p.do("start", "a")
		p.await("a.server", "a to have a session", func(v any) bool { return v != 0 })
		p.join("a")
		require.True(t, l.is("a.lock", "waits"))
	})
}

func TestHolderWhoseSessionIsExpiredIsNotifiedAndQueuesAgain(t *testing.T) {
	inFullBubble(t, func(t *testing.T, l *Lab, p *player) {
		p.do("expire", "a")
		p.awaitLock("b", "holds")
		p.awaitLock("a", "waits")
		require.True(t, l.hasEvent("a", "is notified: session expired"))
	})
}

func TestHolderThatIsToLeaveAfterItsLossIsOut(t *testing.T) {
	inFullBubble(t, func(t *testing.T, l *Lab, p *player) {
		p.do("partition", "a")
		p.awaitLock("a", "lost")
		p.do("leave", "a") // before its work has ended
		p.awaitLock("a", "out")
		p.do("heal", "a")
		p.awaitLock("b", "holds")
		p.join("a")
		require.True(t, l.is("a.lock", "waits"))
	})
}

// The order to join can overtake the end of the wait.
func TestContenderThatJoinsWhileItLeavesQueuesAgain(t *testing.T) {
	inFullBubble(t, func(t *testing.T, l *Lab, p *player) {
		p.do("leave", "b")
		p.do("join", "b")
		p.await("queue", "b to be the last", func(v any) bool {
			positions := v.([]position)
			return len(positions) == 3 && positions[2].Owner == "b"
		})
		p.awaitLock("b", "waits")
		require.True(t, l.hasEvent("b", "has left the queue"))
	})
}

// Otherwise the bubble would not end.
func TestContenderThatIsPausedEndsWithTheLaboratory(t *testing.T) {
	inFullBubble(t, func(t *testing.T, l *Lab, p *player) {
		p.do("pause", "b")
		require.True(t, l.is("b.process", "paused"))
	})
}

func TestJoinWhoseReplyIsLostLeavesOneNode(t *testing.T) {
	inFullBubble(t, func(t *testing.T, l *Lab, p *player) {
		p.do("leave", "a")
		p.awaitLock("b", "holds")
		p.do("lose-reply", "a")
		p.join("a")
		require.True(t, l.hasEvent("a", "has no connection"))
		v, _ := l.journal.value("queue")
		require.Len(t, v, 3)
	})
}

func TestRegisterThatIsAwayIsNamedInTheErrorOfItsWriter(t *testing.T) {
	inFullBubble(t, func(t *testing.T, l *Lab, p *player) {
		p.do("take-away", fenced)
		p.await(bare+".writer", "a write of a", func(v any) bool { return v == "a" })
		require.True(t, l.hasEvent("a", `cannot write "a-1" to the fenced register: `+errRefused.Error()))
		p.do("bring-back", fenced)
		p.awaitWriter("a")
	})
}

func TestActionThatIsNotPossibleIsRefusedWithItsReason(t *testing.T) {
	inFullBubble(t, func(t *testing.T, l *Lab, p *player) {
		p.do("pause", "b")
		p.do("isolate", "a")
		for action, want := range map[Action]string{
			{"fly", "a"}:             "fly a: no such action: must be one of expire, heal, isolate, join, kill, leave, lose-reply, partition, pause, resume, start, bring-back, take-away, servers",
			{"pause", "d"}:           "pause d: no such contender: must be one of a, b, c",
			{"take-away", "a"}:       "take-away a: no such register: must be one of fenced, bare",
			{"bring-back", fenced}:   "bring-back fenced: it is back already",
			{"start", "a"}:           "start a: it runs already",
			{"pause", "b"}:           "pause b: it does not run, or is paused",
			{"resume", "a"}:          "resume a: it is not paused",
			{"heal", "a"}:            "heal a: it is not partitioned",
			{"isolate", "c"}:         "isolate c: server 2 is cut off already: heal it first",
			{"servers", "isolate 9"}: `servers isolate 9: zktest: fault "isolate 9": server "9": must be 1 to 3`,
		} {
			before := len(l.events())
			err := l.Do(p.ctx, action)
			require.EqualError(t, err, want)
			require.ErrorAs(t, err, new(*BadActionError))
			require.Len(t, l.events(), before, "nothing has happened")
		}
		p.do("resume", "b")
		p.heal()
	})
}
