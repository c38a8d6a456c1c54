// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A row is an acquisition: its steps, each with its answer. Two rows of three have occurred, step by step, in the simulation or
// in another test of this package; the remaining ones need several faults, or two requests with the same hint. "own" is a node
// whose name has the request's hint, and so is "own0", which another call for the same request has created. Each step takes
// 1 s, or 31 s if it is answered "30s later", and the TTL is 40 s.
type row struct {
	rule      string
	wait      time.Duration
	reentrant bool
	polled    string // the node with which this replica has answered an earlier poll, behind a
	steps     string
}

// A poll that ends after 20 s has wait time left, or has not.
const (
	long  = time.Hour
	short = 20 * time.Second
)

var rows = []row{
	{rule: "a queue that is known to be empty costs one request", steps: `
		session > empty; create held 40s > own@0 held alone; grant own, sent after 1s`},
	{rule: "any other queue is listed first", wait: long, steps: `
		session > ; list recent > ; create held 40s > own@0 held alone; grant own, sent after 2s`},
	{rule: "a node that was created as held behind a contender waits", wait: long, steps: `
		session > empty; create held 40s > own@0 held; list soon > a own; write own@0 waiting 30s > own@1; watch a > first
		session > first; write own@1 held 40s > own@2 held; grant own, sent after 6s`},
	{rule: "no listing is needed if all contenders ahead are known to have left", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own; watch a > first
		session > first; write own@0 held 40s > own@1 held; grant own, sent after 6s`},
	{rule: "a waiter whose predecessor has left can have another one ahead", wait: long, steps: `
		session > ; list recent > a b; create waiting 30s > own@0; list soon > a b own; watch b > ; session > ; list newest > a own
		watch a > ; session > ; list newest > own b; write own@0 held 40s > own@1 held; grant own, sent after 10s`},
	{rule: "a request that does not wait is refused after a sync only", steps: `
		session > ; list soon > a; sync > ; list soon > a b; read a > a@1 held; refuse: held by a`},
	{rule: "a sync shows the lease of an earlier call", steps: `
		session > ; list soon > a; sync > ; list soon > own; read own > own@0 held; list soon > own
		write own@0 held 40s > own@1 held; grant own again, sent after 6s`},
	{rule: "the first contender that has not left is named", steps: `
		session > ; list soon > a b; sync > ; list soon > a b; read a > missing; read b > b@0; refuse: b waits in front`},
	{rule: "the queue is listed again if all contenders have left", steps: `
		session > ; list soon > a; sync > ; list soon > a; read a > missing
		session again > ; list soon > ; create held 40s > own@0 held alone; grant own, sent after 7s`},
	{rule: "no contender is ahead of a node that joined behind one that has left", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0 alone; list soon > own; write own@0 held 40s > own@1 held
		grant own, sent after 4s`},
	{rule: "a request that does not wait leaves no node", steps: `
		session > empty; create held 40s > own@0 held; list soon > a own; delete own@0 > ; read a > a@0 held; refuse: held by a`},
	{rule: "a node that is missing needs no delete", steps: `
		session > empty; create held 40s > own@0 held; list soon > a own; delete own@0 > missing; read a > a@0 held; refuse: held by a`},
	{rule: "the contender in front is named, and not one that may have been of the request", steps: `
		session > empty; create held 40s > own@0 held; list soon > a own0 own; read own0 > own0@0 other; delete own@0 >
		read a > a@0 held; refuse: held by a`},
	{rule: "a request that does not wait joins again if those ahead have left", steps: `
		session > empty; create held 40s > own@0 held; list soon > a own b; delete own@0 > ; read a > missing
		session again > ; list soon > b; sync > ; list soon > b; read b > b@0 held; refuse: held by b`},
	{rule: "a server of another session may lag", steps: `
		session > ; list soon > a; sync > ; list soon > ended; session again > ; list soon > a; sync > ; list soon > a; read a > a@0 held
		refuse: held by a`},
	{rule: "a node that another call has written is not deleted", steps: `
		session > empty; create held 40s > own@0 held; list soon > a own; delete own@0 > overtaken; refuse: superseded`},
	{rule: "a request is not granted its node behind a contender, although it is held", wait: long, steps: `
		session > ; list recent > a own; read own > own@0 held; list soon > a own; write own@0 waiting 30s > own@1; watch a >`},
	{rule: "a lease is not granted again without a write, and its TTL is not lowered", steps: `
		session > ; list soon > own a; read own > own@3 held 60s; list soon > own a
		write own@3 held 60s > own@4 held; grant own again, sent after 4s`},
	{rule: "an adopted waiter that does not wait gives up after its write", steps: `
		session > ; list soon > a own; read own > own@2; list soon > a own; write own@2 waiting 30s > own@3; delete own@3 >
		read a > a@0 held; refuse: held by a`},
	{rule: "nodes with the request's hint can be of another request", wait: long, steps: `
		session > ; list recent > own0 own; read own0 > own0@0 other; read own > own@0; list soon > own0 own
		write own@0 waiting 30s > own@1; watch own0 >`},
	{rule: "a quorum is asked before a node is missing", wait: long, steps: `
		session > ; list recent > a own; read own > own@0; list soon > a; check own > ; list soon > a own
		write own@0 waiting 30s > own@1; watch a >`},
	{rule: "a request joins again after a quorum's answer", wait: long, steps: `
		session > ; list recent > a own; read own > own@0; list soon > a; check own > missing
		session again > ; list recent > a; create waiting 30s > own@0; list soon > a own; watch a >`},
	{rule: "a quorum is asked before a request is refused its node", steps: `
		session > ; list soon > own; read own > own@0 held closed; check own > ; read own > own@1 held; list soon > own
		write own@1 held 40s > own@2 held; grant own again, sent after 6s`},
	{rule: "a released lease is not entered again", steps: `
		session > ; list soon > own; read own > own@1 held closed; check own > ; read own > own@1 held closed; refuse: released`},
	{rule: "a revoked lease is not written again", wait: long, steps: `
		session > ; list recent > own; read own > own@1 held revoked; check own > ; read own > own@1 held revoked; refuse: revoked`},
	{rule: "a request with other metadata is refused", steps: `
		session > ; list soon > own; read own > own@0 metadata; check own > ; read own > own@0 metadata; refuse: metadata differs`},
	{rule: "a request that shares its lease is another one", steps: `
		session > ; list soon > own; read own > own@0 shared; check own > ; read own > own@0 shared; refuse: reentrant differs`},
	{rule: "a request keeps the lower one of two nodes", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own0 own; read own0 > own0@0; delete own@0 >
		list soon > a own0; write own0@0 waiting 30s > own0@1; watch a >`},
	{rule: "a call goes on with the higher one if another call has written it", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > own0 own; read own0 > own0@0; delete own@0 > overtaken
		session again > ; read own > own@1; list soon > own0 own; write own@1 waiting 30s > own@2; watch own0 >`},
	{rule: "a poll goes on without a listing", wait: long, polled: "own@4", steps: `
		session > ; write own@4 waiting 30s > own@5; watch a > first; session > first; write own@5 held 40s > own@6 held
		grant own, sent after 4s`},
	{rule: "a poll overwrites no grant of another replica", wait: long, polled: "own@4", steps: `
		session > ; write own@4 waiting 30s > overtaken; session again > ; read own > own@5 held; list soon > own
		write own@5 held 40s > own@6 held; grant own again, sent after 5s`},
	{rule: "a waiter that expired between polls joins again", wait: long, polled: "own@4", steps: `
		session > ; write own@4 waiting 30s > missing; session again > ; list recent > a; create waiting 30s > own@0; list soon > a own
		watch a >`},
	{rule: "a poll goes on with no node of another request", wait: long, polled: "own@4 other", steps: `
		session > ; list recent > a own`},
	{rule: "an owner shares its lease, whose TTL is not lowered", reentrant: true, steps: `
		session > ; list soon > a; read a > a@1 held 60s shared by another; write a@1 held 60s x2 > a@2 held
		grant a again, sent after 3s`},
	{rule: "requests that share a lease are a set", reentrant: true, steps: `
		session > ; list soon > a; read a > a@1 held shared; write a@1 held 40s x1 > a@2 held; grant a again, sent after 3s`},
	{rule: "a request that created a shared lease is granted its node", reentrant: true, steps: `
		session > ; list soon > own; read own > own@0 held shared; list soon > own; read own > own@0 held shared; list soon > own
		write own@0 held 40s x1 > own@1 held; grant own again, sent after 6s`},
	{rule: "the lease of another owner is not shared", reentrant: true, steps: `
		session > ; list soon > a; read a > a@1 held reentrant; list soon > a; sync >`},
	{rule: "a waiter is not shared", reentrant: true, steps: `
		session > ; list soon > a; read a > a@1 shared by another; list soon > a; sync > ; list soon > a`},
	{rule: "a late duplicate does not share the lease again", reentrant: true, steps: `
		session > ; list soon > a; read a > a@1 held shared closed; refuse: released`},
	{rule: "a revoked lease is not shared", reentrant: true, steps: `
		session > ; list soon > a; read a > a@1 held revoked shared; refuse: revoked`},
	{rule: "a bounded number of requests share a lease", reentrant: true, steps: `
		session > ; list soon > a; read a > a@1 held shared by another full; refuse: exhausted`},
	{rule: "a lease that another call overtook is looked for again", reentrant: true, steps: `
		session > ; list soon > a; read a > a@1 held shared by another; write a@1 held 40s x2 > overtaken
		session again > ; list soon > a; read a > missing; list soon > ; create held 40s > own@0 held alone; grant own, sent after 8s`},
	{rule: "a lease is shared only if both ask for that", reentrant: true, wait: long, steps: `
		session > ; list soon > a; read a > a@1 held alone; list recent > a; create waiting 30s > own@0; list soon > a own; watch a >`},
	{rule: "a poll ends with the node kept for as long as the caller needs to ask again", wait: long, steps: `
		session > ; list recent > a b; create waiting 30s > own@0; list soon > a b own; watch b > over; session > 
		list recent > a b own; read a > a@0 held; write own@0 waiting 5s > own@1 gone; refuse: waiting behind 2, remember own@1`},
	{rule: "a poll without wait time leaves no node", wait: short, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own; watch a > over; session > 
		list recent > a own; read a > a@0 held; delete own@0 > ; refuse: held by a`},
	{rule: "a drained replica keeps the position of a caller", wait: short, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own; watch a > over drained; session > drained
		list recent > a own; read a > a@0 held drained; write own@0 waiting 5s > own@1; refuse: waiting behind 1, remember own@1`},
	{rule: "a poll that ends while the front leaves lists the queue again", wait: long, steps: `
		session > ; list recent > a b; create waiting 30s > own@0; list soon > b own; watch b > over; session > 
		list recent > a b; list soon > b own; read b > missing; list soon > own; list newest > own
		write own@0 held 40s > own@1 held; grant own, sent after 11s`},
	{rule: "a call whose poll ends is superseded by another one that has written the node", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own; watch a > over; session > 
		list recent > a own; read a > a@0 held; write own@0 waiting 5s > overtaken; refuse: superseded`},
	{rule: "a call is superseded if another one has written the node during the wait", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own; watch a > overtaken; refuse: superseded`},
	{rule: "a waiter that has expired joins again", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own; watch a > missing 30s later; session > 
		list recent > a; create waiting 30s > own@0; list soon > a own; watch a >`},
	{rule: "a waiter whose node was deleted does not join again", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own; watch a > missing; refuse: superseded`},
	{rule: "a waiter whose node was deleted before its grant does not join again", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own; watch a > first; session > first
		write own@0 held 40s > missing; refuse: superseded`},
	{rule: "a waiter whose node is not listed does not join again after a quorum's answer", wait: long, steps: `
		session > ; list recent > a b; create waiting 30s > own@0; list soon > a b own; watch b > ; session > ; list newest > a
		check own > missing; refuse: superseded`},
	{rule: "a waiter whose node was deleted after an unknown renewal does not join again", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own; watch a > unknown; session > 
		read own > missing; check own > missing; refuse: superseded`},
	{rule: "a call that may have deleted the higher one of two nodes continues with the lower one", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own0 own; read own0 > own0@0; delete own@0 > unknown
		session again > ; read own > missing; check own > missing; session again > ; list recent > a own0; read own0 > own0@0
		list soon > a own0; write own0@0 waiting 30s > own0@1; watch a >`},
	{rule: "a waiter whose renewal was not answered reads its node", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own; watch a > over unknown; session > 
		read own > own@1; list soon > a own; write own@1 waiting 30s > own@2; watch a >`},
	{rule: "a caller that goes while it waits leaves no node", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own; watch a > canceled; session > gone
		delete own@0 > overtaken; refuse: canceled`},
	{rule: "a caller that goes before the grant leaves no node", steps: `
		session > empty; create held 40s > own@0 held alone gone; session > gone; delete own@0 > ; refuse: canceled`},
	{rule: "a lease that may have been granted before stays if the caller goes", steps: `
		session > ; list soon > own; read own > own@0 held; list soon > own; write own@0 held 40s > own@1 held gone; refuse: canceled`},
	{rule: "the node of a late attempt is deleted within another bound", steps: `
		session > empty; create held 40s > unknown; session again > empty; create held 40s > own@0 held alone gone
		session > gone; delete own@0 > ; refuse: canceled`},
	{rule: "nothing is created for a caller that has gone", steps: `
		session > empty gone; refuse: canceled`},
	{rule: "nothing is written for a caller that has gone", wait: long, steps: `
		session > ; list recent > a own; read own > own@2; list soon > a own gone; refuse: canceled`},
	{rule: "a caller whose deadline passes keeps its position", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > own expired; refuse: uncertain`},
	{rule: "a node whose create was not answered is looked for", steps: `
		session > empty; create held 40s > unknown; session again > ; list soon > own; read own > own@0 held; list soon > own
		write own@0 held 40s > own@1 held; grant own again, sent after 6s`},
	{rule: "a node whose write was overtaken is read again", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > own; write own@0 held 40s > overtaken
		session again > ; read own > own@1 held; list soon > own; write own@1 held 40s > own@2 held; grant own again, sent after 8s`},
	{rule: "another session goes on with the node", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > ended; session again > ; list newest > a own; watch a >
		session > ; list newest > own; write own@0 held 40s > own@1 held; grant own, sent after 9s`},
	{rule: "a poll whose session is over goes on in the next one", wait: long, steps: `
		session > ; list recent > a; create waiting 30s > own@0; list soon > a own; watch a > over; session > 
		list recent > ended; session again > ; list recent > a own; read a > a@0 held; write own@0 waiting 5s > own@1
		refuse: waiting behind 1, remember own@1`},
	{rule: "a bounded number of attempts is overtaken", steps: `
		session > empty; create held 40s > unknown; session again > empty; create held 40s > unknown; session again > empty
		create held 40s > unknown; session again > empty; create held 40s > unknown; refuse: uncertain`},
	{rule: "no attempt begins after the bound of all attempts", steps: `
		session > empty; create held 40s > unknown late; refuse: uncertain`},
	{rule: "a delete that was not answered leaves the outcome to the next call", steps: `
		session > empty; create held 40s > own@0 held; list soon > a own; delete own@0 > unknown; refuse: uncertain`},
}

func TestNextStepOfAcquisition(t *testing.T) {
	for _, r := range rows {
		t.Run(r.rule, func(t *testing.T) {
			now := time.Now()
			req := Request{Path: "/l", Principal: "p", Owner: "o", RequestID: "id", TTL: 40 * time.Second, Wait: r.wait, Reentrant: r.reentrant}
			s := state{req: req, received: now, hint: req.hint(), hash: req.hash()}
			if r.polled != "" {
				s.polled = write{node: s.contender(strings.Fields(r.polled)), ahead: s.node("a")}
			}
			var l *listing
			var c *Contender
			st := step{do: doSession, then: s}
			for _, exchange := range strings.FieldsFunc(strings.TrimSpace(r.steps), func(r rune) bool { return r == '\n' || r == ';' }) {
				want, answer, answered := strings.Cut(exchange, ">")
				require.Equal(t, strings.TrimSpace(want), describe(&st))
				require.Equal(t, st.do != doGrant && st.do != doRefuse, answered)
				if answered {
					now = now.Add(time.Second)
					if strings.Contains(answer, "later") {
						now = now.Add(waitTTL)
					}
					s, l, c = s.after(&st, strings.Fields(answer), l, c)
					s.now = now
					st = next(s, l, c)
				}
			}
		})
	}
}

// Errors of steps, and how a refusal is described.
var (
	stepErrors = map[string]error{
		"missing": zk.ErrNoNode, "overtaken": zk.ErrBadVersion, "unknown": ErrUncertain, "ended": errAgain, "canceled": context.Canceled,
	}
	refusals = map[string]error{
		"superseded": ErrSuperseded, "released": ErrReleased, "exhausted": ErrExhausted, "revoked": ErrRevoked, "uncertain": ErrUncertain,
		"canceled": context.Canceled,
	}
)

// after returns the state after a step that was answered with these words, and what was listed and read last.
func (s state) after(st *step, words []string, l *listing, c *Contender) (state, *listing, *Contender) {
	has := func(word string) bool { return slices.Contains(words, word) }
	var err error
	for word, e := range stepErrors {
		if has(word) {
			err = e
		}
	}
	var own Contender
	switch {
	case st.do == doList:
		l = &listing{by: st.by}
		for _, word := range words {
			if len(word) == 1 || strings.HasPrefix(word, "own") {
				l.names = append(l.names, s.node(word))
			}
		}
	case st.do == doRead && err != nil:
		c = nil
	case st.do == doRead:
		read := s.contender(words)
		c = &read
	case err == nil && (st.do == doCreate || st.do == doWrite):
		own = s.contender(words)
		own.Lease, own.TTL = &st.lease, st.lease.TTL
		st.then.alone = has("alone")
	case err != nil && st.do == doWrite:
		err = fmt.Errorf("%w: %w", errAgain, err)
	case st.do == doWatch && !has("canceled"):
		st.then.lost, err = err, nil
	}
	s = st.stored(own, err)
	if st.do == doWatch {
		s.over = has("over")
	}
	s.empty, s.first, s.drained, s.late, s.gone = has("empty"), has("first"), has("drained"), has("late"), nil
	switch {
	case has("gone"), has("canceled"):
		s.gone = context.Canceled
	case has("expired"):
		s.gone = context.DeadlineExceeded
	}
	return s, l, c
}

// node returns the name of a node.
func (s *state) node(word string) string {
	if strings.HasPrefix(word, "own") {
		return "0-" + s.hint + "-" + word
	}
	return "0-" + strings.Repeat(word, hintLength) + "-" + word
}

// contender returns the contender that the words describe. One that is not of this request has another owner, unless it is
// shared or alone.
func (s *state) contender(words []string) Contender {
	has := func(word string) bool { return slices.Contains(words, word) }
	name, version, _ := strings.Cut(words[0], "@")
	v, _ := strconv.Atoi(version)
	l := Lease{TTL: s.req.TTL, Held: has("held"), Principal: "p", Owner: "o", Reentrant: has("shared") || has("reentrant"), Requests: []string{s.hash}}
	switch {
	case has("other"), has("another"), has("alone"):
		l.Requests = []string{"other"}
	case !strings.HasPrefix(name, "own") && !has("shared"):
		l.Owner = name
	}
	if has("60s") {
		l.TTL = time.Minute
	}
	if has("full") {
		l.Requests = make([]string, maxRequests)
	}
	if has("closed") {
		l.Closed = []string{s.hash}
	}
	if has("metadata") {
		l.Metadata = map[string]string{"key": "value"}
	}
	if has("revoked") {
		l.Revoked = &recipes.Revocation{}
	}
	return Contender{Lease: &l, Contender: recipes.Contender{
		Name: s.node(name), Version: int32(v), Owner: l.Owner, TTL: l.TTL, Held: l.Held, Revoked: l.Revoked, Kind: recipes.KindLease,
	}}
}

// describe returns a step as the rows have it.
func describe(st *step) string {
	short := func(name string) string { return name[strings.LastIndex(name, "-")+1:] }
	record := func() string {
		text := "waiting"
		if st.lease.Held {
			text = "held"
		}
		text += " " + st.lease.TTL.String()
		if st.lease.Reentrant && st.do == doWrite {
			text += fmt.Sprintf(" x%d", len(st.lease.Requests))
		}
		return strings.ReplaceAll(text, "1m0s", "60s")
	}
	over := fmt.Sprintf("%s@%d", short(st.over.Name), st.over.Version)
	text := string(st.do) + " "
	switch st.do {
	case doSession:
		if st.then.attempt > 0 {
			text += "again"
		}
	case doList:
		text += string(st.by)
	case doRead, doCheck, doWatch:
		text += short(st.name)
	case doCreate:
		text += record()
	case doWrite:
		text += over + " " + record()
	case doDelete:
		text += over
	case doGrant:
		text += short(st.grant.Ticket.Node)
		if st.grant.Repeated {
			text += " again"
		}
		text += fmt.Sprintf(", sent after %v", (st.grant.Valid-st.grant.TTL)/31*32)
	case doRefuse:
		text = "refuse: " + refusal(st.err)
		if st.remember != nil {
			text += fmt.Sprintf(", remember %s@%d", short(st.remember.node.Name), st.remember.node.Version)
		}
	}
	return strings.TrimSpace(text)
}

// refusal returns a short form of the error.
func refusal(err error) string {
	var held *HeldError
	var waits *WaitingError
	var mismatch *MismatchError
	switch {
	case errors.As(err, &held) && held.Holder() != "":
		return "held by " + held.Holder()
	case errors.As(err, &held):
		return held.Front.Owner + " waits in front"
	case errors.As(err, &waits):
		return fmt.Sprintf("waiting behind %d", waits.Position)
	case errors.As(err, &mismatch):
		return mismatch.Field + " differs"
	}
	for name, target := range refusals {
		if errors.Is(err, target) {
			return name
		}
	}
	return err.Error()
}
