// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/txnlog"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

// The operator has tried to end session 7. docker.Ensemble.Expire numbers its request, and a leader does not.
func TestSessionThatTimesOutIsNotEndedByTheOperatorWhoTriedTo(t *testing.T) {
	const node = root + "/locks/a/1-lock-0000000000"
	for name, c := range map[string]struct {
		session int64
		request int32
		cause   history.Cause
		expired int
	}{
		"a server ends the session":     {7, 0, history.ByTimeout, 1},
		"the operator closes it":        {7, 1, history.ByOperator, 0},
		"a server ends another one":     {8, 0, history.ByTimeout, 1},
		"its own client closes another": {8, 9, history.ByRequest, 0},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			created := txnlog.Part{Type: txnlog.Create2, Paths: []string{node}, Ephemeral: true}
			closed := txnlog.Part{Type: txnlog.CloseSession, Paths: []string{node}}
			log := txnlog.Server{Txns: []txnlog.Txn{
				{Zxid: 1<<32 + 1, Session: c.session, Request: 1, Time: began, Type: created.Type, Part: created},
				{Zxid: 1<<32 + 2, Session: c.session, Request: c.request, Time: began.Add(time.Second), Type: closed.Type, Part: closed},
			}}
			scale := &clocks{pairs: []bothClocks{{began, 0}}}
			result := &verdict.Result{EndedSessions: []history.ID{7}}
			events := order(result, []txnlog.Server{log}, func([]txnlog.Txn) *clocks { return scale })
			require.Equal(t, []history.Kind{history.Created, history.Deleted, history.Ended}, []history.Kind{events[0].Kind, events[1].Kind, events[2].Kind})
			require.Equal(t, c.cause, events[1].Cause)
			require.Equal(t, c.cause, events[2].Cause)
			require.Equal(t, c.expired, result.Expired)
		})
	}
}
